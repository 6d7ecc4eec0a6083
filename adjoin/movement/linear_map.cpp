#include "adjoin/movement/linear_map.hpp"

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace adjoin {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

/// Carries a map through autograd's saved data.
struct Capsule : torch::CustomClassHolder {
  explicit Capsule(LinearMap m) : map(std::move(m)) {}
  LinearMap map;
};

struct Apply : torch::autograd::Function<Apply> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const c10::intrusive_ptr<Capsule>& capsule) {
    ctx->saved_data["map"] = c10::IValue::make_capsule(capsule);
    at::Tensor y = capsule->map.forward(x);
    // Autograd takes an output that is the input itself for an operation in place.
    return y.is_same(x) ? x.view_as(x) : y;
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const auto capsule = c10::static_intrusive_pointer_cast<Capsule>(ctx->saved_data["map"].toCapsule());
    return {adjoin::apply({capsule->map.adjoint, capsule->map.forward}, gradients[0], gradients[0].requires_grad()),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor apply(const LinearMap& map, const at::Tensor& x, bool requires_grad) {
  if (!x.requires_grad() && !(requires_grad && at::GradMode::is_enabled())) return map.forward(x);
  const at::Tensor input = x.requires_grad() ? x : x.detach().requires_grad_(true);
  return Apply::apply(input, c10::make_intrusive<Capsule>(map));
}

}  // namespace adjoin
