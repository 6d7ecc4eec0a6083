#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "adjoin/comm/call_site.hpp"
#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/layout.hpp"

namespace torch::autograd {
struct Node;
}

namespace adjoin {

/// What a movement takes and gives, seen along the axes over which it moves; along others a tensor stays what it was.
struct MovedKinds {
  const char* name = "";
  Kind from = Kind::split, to = Kind::split;
  bool keeps = false;  ///< any kind, which it leaves as it is
  /// In place of `from` and `to`, where the kinds differ between axes; their ranks are those of `group`.
  std::optional<std::pair<Layout, Layout>> layouts = {};
  Communicator group = {};
};

/// A linear map between tensors that live on many workers, and its adjoint.
struct LinearMap {
  std::function<at::Tensor(const at::Tensor&)> forward, adjoint;
  std::optional<MovedKinds> kinds = {};  ///< none where nothing moves
};

/// Applies a map so that autograd differentiates through it, to any order: backward applies the adjoint, by this same
/// function, so nothing is saved. Every worker that takes part in the map must call backward.
///
/// The output requires a gradient if `x` does, which is equal on all workers that take part, zero-volume tensors
/// included: a worker whose x requires none would not come to backward, and its peers would wait for it.
at::Tensor apply(LinearMap map, const at::Tensor& x);

/// The same for a map in which the workers of a group take part.
/// Throws: in checked mode, InvalidArgument on all of them that names those whose x requires a gradient where others'
///         does not
at::Tensor apply(LinearMap map, const at::Tensor& x, const Communicator& workers);

/// The movement whose adjoint a node of autograd's graph calls; none for other nodes.
struct MovementNode {
  const MovedKinds& kinds;
  const std::optional<CallSite::Where>& caller;
};
std::optional<MovementNode> movement_of(const torch::autograd::Node& node);

/// While it lives, movements of this thread are what `replace` makes of them: for tests of what finds a wrong one.
class ReplacedMovements {
 public:
  using Replace = std::function<at::Tensor(const LinearMap& map, const at::Tensor& x, const Communicator& workers)>;
  explicit ReplacedMovements(Replace replace);
  ~ReplacedMovements();
  ReplacedMovements(const ReplacedMovements&) = delete;
  ReplacedMovements& operator=(const ReplacedMovements&) = delete;

 private:
  Replace replace_;
};

/// Complex tensors travel as pairs of reals: `movement` applied to x, or to its pairs along a last dim more.
at::Tensor on_reals(const at::Tensor& x, c10::function_ref<at::Tensor(const at::Tensor&)> movement);
/// The shape of those pairs.
std::vector<int64_t> with_pairs(std::vector<int64_t> shape);

}  // namespace adjoin
