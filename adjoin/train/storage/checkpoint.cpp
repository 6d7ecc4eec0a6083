#include "adjoin/train/storage/checkpoint.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/blocks.hpp"
#include "adjoin/nn/state.hpp"
#include "adjoin/parallel/moments.hpp"
#include "adjoin/train/on_root.hpp"
#include "adjoin/train/storage/read_checkpoint.hpp"
#include "adjoin/train/storage/safetensors.hpp"

namespace adjoin::train {
namespace {

/// A tensor of the file: a parameter's piece, or one that is cut as it is.
struct Named {
  std::string name;
  nn::Parameter parameter;
  std::function<at::Tensor()> local;  // the piece, on the first of the workers that hold copies of it; all of them call
};

/// Worker 0 writes; the global tensors come to it one at a time, from the first copies of their pieces.
void save(const std::filesystem::path& path, const std::vector<Named>& tensors, const Grid& grid,
          const Metadata& metadata) {
  std::vector<TensorEntry> entries;
  for (const auto& [name, parameter, local] : tensors)
    entries.push_back({name, parameter.tensor.scalar_type(), parameter.layout.shape()});
  const Communicator workers = grid.group_of(grid.shape().ranks());  // whose rank 0 is cell 0
  const std::string what = "writing " + path.string();
  std::optional<SafetensorsWriter> file;  // of rank 0
  on_root(workers, what, [&] { file.emplace(path, entries, metadata); });
  for (const size_t i : writing_order(entries)) {
    const auto& [name, parameter, local] = tensors[i];
    const at::Tensor tensor = nn::gather_tensor(local(), parameter.layout, grid, grid.shape().rank_of(0)).contiguous();
    on_root(workers, what, [&] { file->write(tensor); });
  }
  on_root(workers, what, [&] { file->publish(); });
}

at::Tensor read_part(const SafetensorsFile& file, const std::string& name, const Split& split, int part) {
  std::vector<at::Tensor> pieces;
  for (const Range& range : split.ranges(part)) pieces.push_back(file.read(name, split.dim(), range.begin, range.end));
  if (pieces.empty()) return file.read(name, split.dim(), 0, 0);
  return pieces.size() == 1 ? pieces[0] : at::cat(pieces, split.dim());
}

void check_tensor(const SafetensorsFile& file, const std::filesystem::path& path, const std::string& name,
                  const nn::Parameter& parameter) {
  const Layout& layout = parameter.layout;
  require(file.contains(name), [&] { return path.string() + ": there is no tensor '" + name + "'"; });
  require(file.shape(name) == layout.shape(), [&] {
    return path.string() + ": tensor '" + name + "' is " + shape_text(file.shape(name)) + ", the model's is " +
           shape_text(layout.shape());
  });
  require(at::isFloatingType(file.dtype(name)) == at::isFloatingType(parameter.tensor.scalar_type()),
          [&] { return path.string() + ": tensor '" + name + "' is of " + c10::toString(file.dtype(name)); });
}

at::Tensor read_unchecked(const SafetensorsFile& file, const std::string& name, const nn::Parameter& parameter) {
  const Layout& layout = parameter.layout;
  const auto cell = layout.grid().cell_of(parameter.grid.world().rank());
  if (!cell) return parameter.tensor.new_empty({0});
  const std::vector<int> parts = layout.parts_of(*cell);
  at::Tensor piece;
  for (int64_t dim = 0; dim < layout.dims(); ++dim) {
    const Split& split = layout.split(dim);
    const int part = parts[static_cast<size_t>(dim)];
    if (split.parts() == 1 && split.in_order()) continue;
    piece = piece.defined() ? take_block(piece, split, part) : read_part(file, name, split, part);
  }
  return piece.defined() ? piece : file.read(name);
}

/// This worker's piece of a global tensor in a file.
at::Tensor read_piece(const SafetensorsFile& file, const std::filesystem::path& path, const std::string& name,
                      const nn::Parameter& parameter) {
  check_tensor(file, path, name, parameter);
  const at::Tensor piece = read_unchecked(file, name, parameter);
  require(parameter.is_buffer || at::isfinite(piece).all().item<bool>(),
          [&] { return path.string() + ": tensor '" + name + "' holds numbers that are not finite"; });
  return piece;
}

/// That the file's tensors are the parameters: all of them, and no others.
void check_names_and_shapes(const SafetensorsFile& file, const std::filesystem::path& path,
                            const std::vector<nn::Parameter>& parameters) {
  for (const std::string& name : file.names())
    require(std::any_of(parameters.begin(), parameters.end(), [&](const nn::Parameter& p) { return p.name == name; }),
            [&] { return path.string() + ": the model has no tensor '" + name + "'"; });
  for (const nn::Parameter& parameter : parameters) check_tensor(file, path, parameter.name, parameter);
}

/// That the file's tensors are moments of the optimizer's rule.
void check_moments(const SafetensorsFile& file, const std::filesystem::path& path,
                   const parallel::Optimizer& optimizer) {
  const std::vector<std::string>& moments = optimizer.rule().moments;
  for (const std::string& name : file.names())
    require(std::any_of(moments.begin(), moments.end(), [&](const auto& m) { return name.starts_with(m + "."); }),
            [&] { return path.string() + ": holds '" + name + "', which is no moment of " + optimizer.rule().name; });
}

}  // namespace

void save_weights(const std::filesystem::path& path, const std::vector<nn::Parameter>& parameters, const Grid& grid,
                  const Metadata& metadata) {
  std::vector<Named> tensors;
  for (const nn::Parameter& p : parameters)
    tensors.push_back({p.name, p, [tensor = p.tensor] { return tensor.detach(); }});
  save(path, tensors, grid, metadata);
}

void check_weights(const std::filesystem::path& path, const std::vector<nn::Parameter>& parameters) {
  check_names_and_shapes(SafetensorsFile(path), path, parameters);
}

void load_weights(const std::filesystem::path& path, const std::vector<nn::Parameter>& parameters,
                  const std::optional<std::string>& checkpoint) {
  const at::NoGradGuard no_gradient;
  const SafetensorsFile file(path);
  if (checkpoint) check_belongs(file, path, *checkpoint);
  check_names_and_shapes(file, path, parameters);
  for (const nn::Parameter& parameter : parameters)
    parameter.tensor.copy_(read_piece(file, path, parameter.name, parameter));
}

void save_moments(const std::filesystem::path& path, const parallel::Optimizer& optimizer, const Grid& grid,
                  const Metadata& metadata) {
  const std::vector<nn::Parameter> parameters = optimizer.parameters();
  const std::vector<std::string>& moments = optimizer.rule().moments;
  std::vector<Named> tensors;
  for (size_t i = 0; i < parameters.size(); ++i)
    for (size_t which = 0; which < moments.size(); ++which)
      tensors.push_back({parallel::moment_name(moments[which], parameters[i]), parameters[i],
                         [&optimizer, i, which] { return optimizer.moment(i, which); }});
  save(path, tensors, grid, metadata);
}

void load_moments(const std::filesystem::path& path, int64_t steps, parallel::Optimizer& optimizer,
                  const std::optional<std::string>& checkpoint) {
  const SafetensorsFile file(path);
  if (checkpoint) check_belongs(file, path, *checkpoint);
  check_moments(file, path, optimizer);
  optimizer.load_state(steps, [&](const nn::Parameter& parameter, const std::string& moment) {
    return read_piece(file, path, parallel::moment_name(moment, parameter), parameter);
  });
}

}  // namespace adjoin::train
