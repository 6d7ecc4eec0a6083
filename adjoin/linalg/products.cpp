#include "adjoin/linalg/products.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace adjoin::linalg {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

const auto& function_of(Product product, const Products& products) {
  return product == Product::nt ? products.nt : product == Product::nn ? products.nn : products.tn;
}

/// Carries the products through autograd's saved data.
struct ProductsCapsule : torch::CustomClassHolder {
  ProductsCapsule(Product which, Products all) : product(which), products(std::move(all)) {}
  Product product;
  Products products;
};

struct Multiply : torch::autograd::Function<Multiply> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& left, const at::Tensor& right,
                            const c10::intrusive_ptr<ProductsCapsule>& capsule) {
    // Each gradient is a product with the other factor.
    ctx->save_for_backward({right.requires_grad() ? left : at::Tensor(), left.requires_grad() ? right : at::Tensor()});
    ctx->saved_data["products"] = c10::IValue::make_capsule(capsule);
    return function_of(capsule->product, capsule->products)(left, right);
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const auto capsule = c10::static_intrusive_pointer_cast<ProductsCapsule>(ctx->saved_data["products"].toCapsule());
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &left = saved[0], &right = saved[1], &g = gradients[0];
    const auto product = [&](Product which, const at::Tensor& a, const at::Tensor& b) {
      return linalg::multiply(which, capsule->products, a, b);
    };
    const auto of_left = [&] {
      return capsule->product == Product::nt   ? product(Product::nn, g, right)
             : capsule->product == Product::nn ? product(Product::nt, g, right)
                                               : product(Product::nt, right, g);
    };
    const auto of_right = [&] {
      return capsule->product == Product::nt   ? product(Product::tn, g, left)
             : capsule->product == Product::nn ? product(Product::tn, left, g)
                                               : product(Product::nn, left, g);
    };
    const at::Tensor left_gradient = ctx->needs_input_grad(0) ? of_left() : at::Tensor();
    return {left_gradient, ctx->needs_input_grad(1) ? of_right() : at::Tensor(), at::Tensor()};
  }
};

}  // namespace

const char* name(Product product) {
  return product == Product::nt ? "nt" : product == Product::nn ? "nn" : "tn";
}

at::Tensor multiply(Product product, const Products& products, const at::Tensor& left, const at::Tensor& right) {
  if (at::GradMode::is_enabled() && (left.requires_grad() || right.requires_grad()))
    return Multiply::apply(left, right, c10::make_intrusive<ProductsCapsule>(product, products));
  const at::NoGradGuard no_gradient;
  return function_of(product, products)(left, right);
}

}  // namespace adjoin::linalg
