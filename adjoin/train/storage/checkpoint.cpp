#include "adjoin/train/storage/checkpoint.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/isfinite.h>

#include <optional>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/blocks.hpp"
#include "adjoin/nn/state.hpp"
#include "adjoin/train/on_root.hpp"
#include "adjoin/train/storage/read_checkpoint.hpp"
#include "adjoin/train/storage/safetensors.hpp"

namespace adjoin::train {
namespace {

at::Tensor read_part(const SafetensorsFile& file, const std::string& name, const Split& split, int part) {
  std::vector<at::Tensor> pieces;
  for (const Range& range : split.ranges(part)) pieces.push_back(file.read(name, split.dim(), range.begin, range.end));
  if (pieces.empty()) return file.read(name, split.dim(), 0, 0);
  return pieces.size() == 1 ? pieces[0] : at::cat(pieces, split.dim());
}

/// That the file's tensors are the pieces: all of them, and no others.
void check_tensors(const SafetensorsFile& file, const std::filesystem::path& path,
                   const std::vector<nn::Parameter>& pieces, const std::string& rule = "") {
  const nn::Shapes shapes = file.shapes();
  const auto other = nn::stranger(shapes, pieces);
  require(!other, [&] {
    return path.string() + (rule.empty() ? ": the model has no tensor '" + *other + "'"
                                         : ": holds '" + *other + "', which is no moment of " + rule);
  });
  const auto wrong = nn::misfit(shapes, pieces, "model");
  require(!wrong, [&] { return path.string() + ": " + *wrong; });
  for (const nn::Parameter& piece : pieces)
    require(at::isFloatingType(file.dtype(piece.name)) == at::isFloatingType(piece.tensor.scalar_type()), [&] {
      return path.string() + ": tensor '" + piece.name + "' is of " + c10::toString(file.dtype(piece.name));
    });
}

/// This worker's piece of a global tensor in a file.
at::Tensor read_piece(const SafetensorsFile& file, const nn::Parameter& parameter) {
  const Layout& layout = parameter.layout;
  const auto cell = layout.grid().cell_of(parameter.grid.world().rank());
  if (!cell) return parameter.tensor.new_empty({0});
  const std::vector<int> parts = layout.parts_of(*cell);
  at::Tensor piece;
  for (int64_t dim = 0; dim < layout.dims(); ++dim) {
    const Split& split = layout.split(dim);
    const int part = parts[static_cast<size_t>(dim)];
    if (split.parts() == 1 && split.in_order()) continue;
    piece = piece.defined() ? take_block(piece, split, part) : read_part(file, parameter.name, split, part);
  }
  return piece.defined() ? piece : file.read(parameter.name);
}

}  // namespace

void save_state(const std::filesystem::path& path, const std::vector<nn::Parameter>& pieces, const Grid& grid,
                const Metadata& metadata) {
  std::vector<TensorEntry> entries;
  for (const nn::Parameter& piece : pieces)
    entries.push_back({piece.name, piece.tensor.scalar_type(), piece.layout.shape()});
  const Communicator workers = grid.group_of(grid.shape().ranks());  // whose rank 0 is cell 0
  const std::string what = "writing " + path.string();
  std::optional<SafetensorsWriter> file;  // of rank 0
  on_root(workers, what, [&] { file.emplace(path, entries, metadata); });
  for (const size_t i : writing_order(entries)) {
    const at::Tensor whole = nn::gather_tensor(pieces[i], grid.shape().rank_of(0)).contiguous();
    on_root(workers, what, [&] { file->write(whole); });
  }
  on_root(workers, what, [&] { file->publish(); });
}

void check_state(const std::filesystem::path& path, const std::vector<nn::Parameter>& pieces) {
  check_tensors(SafetensorsFile(path), path, pieces);
}

void load_state(const std::filesystem::path& path, const std::vector<nn::Parameter>& pieces,
                const StateSource& source) {
  const at::NoGradGuard no_gradient;
  const SafetensorsFile file(path);
  if (source.checkpoint) check_belongs(file, path, *source.checkpoint);
  check_tensors(file, path, pieces, source.rule);
  for (const nn::Parameter& piece : pieces) {
    const at::Tensor values = read_piece(file, piece);
    require(piece.is_buffer || at::isfinite(values).all().item<bool>(),
            [&] { return path.string() + ": tensor '" + piece.name + "' holds numbers that are not finite"; });
    piece.tensor.copy_(values);
  }
}

}  // namespace adjoin::train
