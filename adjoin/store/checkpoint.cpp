#include "adjoin/store/checkpoint.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>

#include <atomic>
#include <map>
#include <system_error>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/state.hpp"
#include "adjoin/store/fail_alike.hpp"
#include "adjoin/store/on_root.hpp"
#include "adjoin/store/piece_runs.hpp"
#include "adjoin/store/read_checkpoint.hpp"
#include "adjoin/store/read_piece.hpp"
#include "adjoin/store/state_parts.hpp"
#include "adjoin/store/state_sums.hpp"

namespace adjoin::train {
namespace {

namespace fs = std::filesystem;

/// Checks that the file's tensors are exactly these pieces.
void check_tensors(const SafetensorsFile& file, const fs::path& path, const std::vector<nn::Parameter>& given,
                   const StateSource& source = {}) {
  const nn::Shapes shapes = file.shapes();
  std::vector<nn::Parameter> pieces = given;
  for (nn::Parameter& piece : pieces)
    if (file.contains(piece.name)) piece = piece_in_file(piece, file.dtype(piece.name));
  const auto other = source.may_hold_more ? std::nullopt : nn::first_unknown_tensor(shapes, pieces);
  require(!other, [&] {
    return path.string() + (source.rule.empty() ? ": the model has no tensor '" + *other + "'"
                                                : ": holds '" + *other + "', which is not a moment of " + source.rule);
  });
  const auto wrong = nn::first_mismatch(shapes, pieces, "model");
  require(!wrong, [&] { return path.string() + ": " + *wrong; });
  for (const nn::Parameter& piece : pieces) {
    const at::ScalarType stored = file.dtype(piece.name), type = piece.tensor.scalar_type();
    const bool converts = (at::isFloatingType(stored) && at::isFloatingType(type)) ||
                          (at::isComplexType(stored) && at::isComplexType(type));
    require(stored == type || converts, [&] {
      return path.string() + ": tensor '" + piece.name + "' is of " + c10::toString(stored) + ", expected " +
             c10::toString(type);
    });
  }
}

/// Checks that each element has one value, and one place among the pieces (except for equal copies).
void check_saved(const std::vector<nn::Parameter>& pieces, const Metadata& metadata) {
  for (const nn::Parameter& piece : pieces)
    require(piece.layout.axes(Kind::partial).empty() && piece.layout.is_exact(), [&] {
      return "save_state: '" + piece.name + "' is a summand, or its parts overlap; expected one piece for each element";
    });
  for (const auto& [key, value] : metadata)
    require(!key.starts_with("checksum."),
            [&] { return "save_state: the metadata '" + key + "' would be a checksum"; });
}

}  // namespace

void save_state(const fs::path& path, const std::vector<nn::Parameter>& pieces, const Grid& grid,
                const Metadata& metadata) {
  check_saved(pieces, metadata);
  const Communicator workers = grid.group_of(grid.shape().ranks());  // rank 0 of this group is cell 0
  const StateParts parts(pieces, workers, /*copies=*/false);
  const fs::path fresh = path.string() + ".adjoin-new";
  const std::string what = "writing " + path.string();
  const std::atomic<bool> stops = false;
  // A worker whose disk refuses has told the others before any of them goes on.
  const auto stage = [&](auto on_some, const std::function<void()>& work) {
    std::exception_ptr error;
    on_some([&] {
      try {
        work();
      } catch (...) {
        error = std::current_exception();
        std::error_code ignored;
        fs::remove(fresh, ignored);
      }
    });
    fail_alike(workers, [&] {
      if (error) std::rethrow_exception(error);
    });
  };
  const auto root = [&](const std::function<void()>& work) { on_root(workers, what, work); };
  const auto all = [&](const std::function<void()>& work) { on_all(workers, what, work); };
  stage(root, [&] {
    check_replaceable(path);
    parts.make_file(fresh, metadata);
  });
  stage(all, [&] { parts.write(fresh, stops); });
  stage(root, [&] { publish_file(fresh, path); });
}

void check_state(const fs::path& path, const std::vector<nn::Parameter>& pieces) {
  check_tensors(SafetensorsFile(path), path, pieces);
}

void load_state(const fs::path& path, const std::vector<nn::Parameter>& pieces, const StateSource& source) {
  const at::NoGradGuard no_gradient;
  const Communicator world = pieces.empty() ? Communicator() : pieces.front().grid.world();
  std::vector<TensorEntry> tensors;
  Sums sums;
  std::map<std::string, uint64_t> expected;
  fail_alike(world, [&] {
    const SafetensorsFile file(path);
    if (source.checkpoint) check_belongs(file, path, *source.checkpoint);
    expected = sums_of(file, path);
    try {
      check_tensors(file, path, pieces, source);
    } catch (const InvalidArgument&) {
      verify_sums(file, path);  // detects damage, which else could look like another model
      throw;
    }
    for (const nn::Parameter& piece : pieces) {
      sums.push_back(read_piece(file, piece));
      tensors.push_back(file.find(piece.name));
      // A file with checksums has exactly the numbers of its run, so these are not checked.
      require(piece.is_buffer || !expected.empty() || at::isfinite(piece.tensor).all().item<bool>(),
              [&] { return path.string() + ": tensor '" + piece.name + "' holds numbers that are not finite"; });
    }
  });
  sums = added_up(sums, world);
  for (size_t i = 0; !expected.empty() && i < tensors.size(); ++i)
    check_sum(path, tensors[i], sums[i], expected.at(tensors[i].name));
}

}  // namespace adjoin::train
