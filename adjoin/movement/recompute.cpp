#include "adjoin/movement/recompute.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/AutogradState.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/lab/timeline.hpp"
#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/movement/forward_record.hpp"
#include "adjoin/movement/global_tensor.hpp"
#include "adjoin/movement/graph_notes.hpp"
#include "adjoin/movement/saved_value.hpp"

namespace adjoin {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;
using Function = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

/// The present autocast of matrix products; backward runs without it.
class AutocastState {
 public:
  AutocastState() {
    for (OfDevice& of : of_devices_)
      of = {of.device, at::autocast::is_autocast_enabled(of.device), at::autocast::get_autocast_dtype(of.device)};
  }
  void restore() const {
    for (const auto& [device, enabled, type] : of_devices_) {
      at::autocast::set_autocast_dtype(device, type);
      at::autocast::set_autocast_enabled(device, enabled);
    }
    at::autocast::set_autocast_cache_enabled(is_cached_);
  }

 private:
  struct OfDevice {
    at::DeviceType device;
    bool enabled = false;
    at::ScalarType type = at::kFloat;
  };
  std::array<OfDevice, 3> of_devices_{{{at::kCPU}, {at::kCUDA}, {at::kPrivateUse1}}};
  const bool is_cached_ = at::autocast::is_autocast_cache_enabled();
};

/// Sets autocast as in `state` for as long as it lives.
class WithAutocast {
 public:
  explicit WithAutocast(const AutocastState& state) { state.restore(); }
  ~WithAutocast() { before_.restore(); }
  WithAutocast(const WithAutocast&) = delete;
  WithAutocast& operator=(const WithAutocast&) = delete;

 private:
  AutocastState before_;
};

/// Whether this thread is recomputing: a nested `recomputed` would be computed three times.
thread_local bool recomputing = false;

/// Whether somebody computes derivatives in forward mode, which any tensor that f uses may have.
bool is_in_forward_mode() {
  return c10::AutogradState::get_tls_state().get_fw_grad_mode() &&
         torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr;
}

constexpr size_t kMostInputs = 8;

struct Recomputation {
  Function f;
  AutocastState autocast = {};
  std::shared_ptr<const FixedOrder> order = FixedOrder::current();
  // Of global tensors: the random operations before f.
  std::shared_ptr<GlobalGrid> home = {};
  int64_t drawn = 0;
};

tensor_list detached(const tensor_list& inputs) {
  tensor_list copies;
  for (const at::Tensor& x : inputs) copies.push_back(x.detach().requires_grad_(x.requires_grad()));
  return copies;
}

/// The result of f, and what check_gradients needs to know about its graph, which is then destroyed.
std::pair<at::Tensor, std::shared_ptr<const GraphNotes>> noted(const Function& f, const tensor_list& inputs) {
  const at::AutoGradMode with_gradient(true);
  const tensor_list own = detached(inputs);
  std::vector<torch::autograd::Edge> edges;
  for (const at::Tensor& x : own)
    edges.push_back(x.requires_grad() ? torch::autograd::impl::gradient_edge(x) : torch::autograd::Edge());
  const at::Tensor y = f(own);
  return {y.detach(), std::make_shared<const GraphNotes>(y, edges)};
}

/// LibTorch's functions do not look into lists: there is one argument for each input that is needed at most, and the last ones
/// may be missing.
struct Recomputed : torch::autograd::Function<Recomputed> {
  using Input = std::optional<at::Tensor>;
  static at::Tensor forward(AutogradContext* ctx, const Input& a, const Input& b, const Input& c, const Input& d,
                            const Input& e, const Input& f, const Input& g, const Input& h,
                            const Recomputation& recomputation) {
    tensor_list inputs;
    for (const Input& x : {a, b, c, d, e, f, g, h})
      if (x) inputs.push_back(*x);
    ctx->save_for_backward(inputs);
    ctx->saved_data["recomputation"] = saved_value(recomputation);
    if (!ForwardRecord::current()) return recomputation.f(inputs);
    auto [y, notes] = noted(recomputation.f, inputs);
    ctx->saved_data["notes"] = saved_value(std::move(notes));
    return y;
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    require(!at::GradMode::is_enabled(), "recomputed: double backward is not supported");
    const auto& [f, state, order, home, drawn] = value_of<Recomputation>(ctx->saved_data["recomputation"]);
    std::optional<DrawsAgain> draws_again;
    if (home) draws_again.emplace(home, drawn);
    const tensor_list inputs = detached(ctx->get_saved_variables());
    {
      const at::AutoGradMode with_gradient(true);
      const at::Tensor y = [&] {
        const lab::TimeSlice slice("recompute");
        const WithAutocast autocast(state);
        const WithOrder with_order(order);
        recomputing = true;
        const auto end = c10::make_scope_exit([] { recomputing = false; });
        return f(inputs);
      }();
      torch::autograd::backward({y}, {gradients[0]});
    }
    tensor_list of_inputs;
    for (const at::Tensor& x : inputs) of_inputs.push_back(x.grad());
    of_inputs.resize(kMostInputs + 1);  // and none for `recomputation`
    return of_inputs;
  }
};

}  // namespace

at::Tensor recomputed(const Function& f, const std::vector<at::Tensor>& inputs) {
  require(!inputs.empty() && inputs.size() <= kMostInputs,
          [&] { return "recomputed: expected 1 to 8 inputs, got " + std::to_string(inputs.size()); });
  const bool is_asked =
      std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor& x) { return x.requires_grad(); });
  if (!at::GradMode::is_enabled() || !is_asked || recomputing || is_in_forward_mode()) return f(inputs);
  const auto input = [&](size_t i) { return i < inputs.size() ? std::optional(inputs[i]) : std::nullopt; };
  Recomputation recomputation{f};
  for (const at::Tensor& x : inputs)
    if (is_global(x)) {
      recomputation.home = piece_of(x).home;
      recomputation.drawn = recomputation.home->drawn;
    }
  return Recomputed::apply(input(0), input(1), input(2), input(3), input(4), input(5), input(6), input(7),
                           recomputation);
}

std::optional<RecomputedNode> recomputed_of(const torch::autograd::Node& node) {
  const auto* const found = dynamic_cast<const torch::autograd::CppNode<Recomputed>*>(&node);
  if (!found) return std::nullopt;
  const auto notes = found->ctx_.saved_data.find("notes");
  if (notes == found->ctx_.saved_data.end()) return RecomputedNode{};
  return RecomputedNode{value_of<std::shared_ptr<const GraphNotes>>(notes->second)};
}

}  // namespace adjoin
