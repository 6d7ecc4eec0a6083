#include "adjoin/movement/linear_map.hpp"

#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/comm/contract/call_site.hpp"
#include "adjoin/movement/forward_mode.hpp"
#include "adjoin/movement/forward_record.hpp"
#include "adjoin/movement/rank_thread.hpp"
#include "adjoin/movement/saved_value.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

thread_local const ReplacedMovements::Replace* replacement = nullptr;

/// A map, the workers that take part in it, and what its adjoint needs to know.
struct Movement {
  LinearMap map;
  std::vector<int64_t> shape;  // of x, and so also of its gradient
  std::optional<Communicator> workers;
  std::optional<CallSite::Where> caller = CallSite::current();  // the code that requested this and so its adjoint
};

std::optional<MovedKinds> dual(std::optional<MovedKinds> kinds) {
  if (!kinds) return kinds;
  std::tie(kinds->from, kinds->to) = std::pair(adjoin::dual(kinds->to), adjoin::dual(kinds->from));
  if (kinds->layouts) kinds->layouts = {kinds->layouts->second.dual(), kinds->layouts->first.dual()};
  return kinds;
}

struct Apply : torch::autograd::Function<Apply> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, Movement movement) {
    at::Tensor y = movement.map.forward(x);
    ctx->saved_data["movement"] = saved_value(std::move(movement));
    // Autograd treats an output that is the input itself as an operation in place.
    return y.is_same(x) ? x.view_as(x) : y;
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const auto& [map, shape, workers, caller] = value_of<Movement>(ctx->saved_data["movement"]);
    const CallSite site(caller);
    LinearMap adjoint{.forward = map.adjoint, .adjoint = {}};
    if (at::GradMode::is_enabled()) {  // else nothing requests the adjoint of the adjoint
      adjoint.adjoint = map.forward;
      adjoint.kinds = dual(map.kinds);
    }
    const at::Tensor dy = map.kinds ? plain(map.kinds->name, gradients[0]) : gradients[0];
    const at::Tensor x =
        workers ? adjoin::apply(std::move(adjoint), dy, *workers) : adjoin::apply(std::move(adjoint), dy);
    // A worker that holds nothing may have passed any zero-volume tensor.
    return {x.numel() == 0 ? x.reshape(shape) : x, at::Tensor()};
  }
};

/// What a test uses in place of a movement; it may call movements itself.
at::Tensor replaced(const LinearMap& map, const at::Tensor& x, const Communicator& workers) {
  const ReplacedMovements::Replace* const now = std::exchange(replacement, nullptr);
  const auto end = c10::make_scope_exit([&] { replacement = now; });
  return (*now)(map, x, workers);
}

at::Tensor untracked(const LinearMap& map, const at::Tensor& x) {
  const at::Tensor y = map.forward(x);
  if (ForwardRecord* const notes = ForwardRecord::current(); notes && map.kinds && at::GradMode::is_enabled())
    notes->add({x, y, *map.kinds, CallSite::current()});
  return y;
}

/// In checked mode: whether x has each kind of derivative on all workers or on none.
void check_alike(const at::Tensor& x, const Communicator& workers) {
  const bool has_gradient = x.requires_grad() && at::GradMode::is_enabled();
  std::vector<int32_t> mine{has_gradient, tangent_of(x).defined()}, flags(2 * static_cast<size_t>(workers.size()));
  workers.all_gather(buffer(mine), buffer(flags), std::vector<int64_t>(static_cast<size_t>(workers.size()), 2));
  const auto check = [&](size_t which, const char* what) {
    std::vector<int> with, without;
    for (int rank = 0; rank < workers.size(); ++rank)
      (flags[2 * static_cast<size_t>(rank) + which] ? with : without).push_back(rank);
    require(with.empty() || without.empty(), [&] {
      return std::string("movement: expected x to ") + what + " on all workers that take part or on none; it does on " +
             ranks_text(with) + " of the group, but not on " + ranks_text(without);
    });
  };
  check(0, "require a gradient");
  check(1, "have a forward-mode derivative");
}

/// `workers` may be null.
at::Tensor applied(LinearMap map, const at::Tensor& given, const Communicator* workers) {
  if (replacement && map.kinds) return replaced(map, given, workers ? *workers : Communicator());
  remember_thread();
  const at::Tensor x = map.kinds ? plain(map.kinds->name, given) : given;
  if (workers && workers->checked() && workers->size() > 1) check_alike(x, *workers);
  if (tangent_of(x).defined())
    return with_tangent(applied(map, x._fw_primal(0), workers), applied(map, tangent_of(x), workers));
  if (!x.requires_grad()) return untracked(map, x);
  return Apply::apply(x, Movement{std::move(map), x.sizes().vec(), workers ? std::optional(*workers) : std::nullopt});
}

}  // namespace

at::Tensor apply(LinearMap map, const at::Tensor& x) {
  return applied(std::move(map), x, nullptr);
}

at::Tensor apply(LinearMap map, const at::Tensor& x, const Communicator& workers) {
  return applied(std::move(map), x, &workers);
}

std::optional<MovementNode> movement_of(const torch::autograd::Node& node) {
  const auto* const found = dynamic_cast<const torch::autograd::CppNode<Apply>*>(&node);
  if (!found || found->ctx_.saved_data.count("movement") == 0) return std::nullopt;
  const auto& movement = value_of<Movement>(found->ctx_.saved_data.at("movement"));
  if (!movement.map.kinds) return std::nullopt;
  return MovementNode{*movement.map.kinds, movement.caller};
}

ReplacedMovements::ReplacedMovements(Replace replace) : replace_(std::move(replace)) {
  replacement = &replace_;
}
ReplacedMovements::~ReplacedMovements() {
  replacement = nullptr;
}

at::Tensor on_reals(const at::Tensor& x, c10::function_ref<at::Tensor(const at::Tensor&)> movement) {
  if (!x.is_complex()) return movement(x);
  const at::Tensor y = movement(at::view_as_real(plain("movement", x)));
  return at::view_as_complex(y.dim() == 1 && y.numel() == 0 ? y.reshape({0, 2}) : y);  // [0]: outside the grid
}

std::vector<int64_t> with_pairs(std::vector<int64_t> shape) {
  shape.push_back(2);
  return shape;
}

Layout with_pairs(const Layout& layout) {
  return Layout(layout.grid(), with_pairs(layout.shape()), layout.cuts(), layout.kinds());
}

}  // namespace adjoin
