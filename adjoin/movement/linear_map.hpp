#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/comm/contract/call_site.hpp"
#include "adjoin/partition/layout.hpp"

namespace torch::autograd {
struct Node;
}

namespace adjoin {

/// The kinds of a movement's input and result along the axes over which it moves; along other axes a tensor keeps its
/// kind.
struct MovedKinds {
  const char* name = "";
  Kind from = Kind::split, to = Kind::split;
  bool keeps = false;  ///< accepts any kind, and leaves it as it is
  /// Used in place of `from` and `to` where the kinds differ between axes; the layouts' ranks are those of `group`.
  std::optional<std::pair<Layout, Layout>> layouts = {};
  Communicator group = {};
};

/// A linear map between tensors that are distributed over many workers, and its adjoint.
struct LinearMap {
  std::function<at::Tensor(const at::Tensor&)> forward, adjoint;
  std::optional<MovedKinds> kinds = {};  ///< none where nothing moves
};

/// Applies a map so that autograd differentiates through it, to any order: backward applies the adjoint with this same
/// function, so nothing is saved. Every worker that takes part in the map must call backward.
///
/// The output requires a gradient if `x` does. That must be the same on all workers that take part, also for
/// zero-volume tensors: a worker whose x requires none would not reach this point of backward, and its peers would wait
/// for it. The same holds for a derivative in forward mode, which the map is applied to as well.
///
/// A map with kinds gets tensors as `plain` makes them, so it need not expect views that negate.
at::Tensor apply(LinearMap map, const at::Tensor& x);

/// The same for a map in which the workers of a group take part.
/// Throws: in checked mode, InvalidArgument on all workers of the group, which names those whose x requires a gradient, or
///         has a derivative in forward mode, while others' does not
at::Tensor apply(LinearMap map, const at::Tensor& x, const Communicator& workers);

/// The movement whose adjoint a node of autograd's graph calls; none for other nodes.
struct MovementNode {
  const MovedKinds& kinds;
  const std::optional<CallSite::Where>& caller;
};
std::optional<MovementNode> movement_of(const torch::autograd::Node& node);

/// While it lives, movements of this thread return what `replace` makes of them: for tests that a wrong movement is
/// found.
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

/// Complex tensors are moved as pairs of reals: applies `movement` to x or, if x is complex, to its pairs along one
/// more last dim.
at::Tensor on_reals(const at::Tensor& x, c10::function_ref<at::Tensor(const at::Tensor&)> movement);
/// The shape of those pairs.
std::vector<int64_t> with_pairs(std::vector<int64_t> shape);
Layout with_pairs(const Layout& layout);

}  // namespace adjoin
