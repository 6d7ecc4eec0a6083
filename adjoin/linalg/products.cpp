#include "adjoin/linalg/products.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "adjoin/movement/forward_mode.hpp"
#include "adjoin/movement/saved_value.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::linalg {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

const auto& function_of(Product product, const Products& products) {
  return product == Product::nt ? products.nt : product == Product::nn ? products.nn : products.tn;
}

struct Multiplication {
  Product product;
  Products products;
};

struct Multiply : torch::autograd::Function<Multiply> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& left, const at::Tensor& right,
                            const Multiplication& multiplication) {
    // Each gradient is a product with the other factor.
    ctx->save_for_backward({right.requires_grad() ? left : at::Tensor(), left.requires_grad() ? right : at::Tensor()});
    ctx->saved_data["multiplication"] = saved_value(multiplication);
    return function_of(multiplication.product, multiplication.products)(left, right);
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const auto& [product, products] = value_of<Multiplication>(ctx->saved_data["multiplication"]);
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &left = saved[0], &right = saved[1], &g = gradients[0];
    const auto multiplied = [&all = products](Product which, const at::Tensor& a, const at::Tensor& b) {
      return linalg::multiply(which, all, a, b);
    };
    at::Tensor of_left, of_right;
    if (ctx->needs_input_grad(0))
      of_left = product == Product::nt   ? multiplied(Product::nn, g, right)
                : product == Product::nn ? multiplied(Product::nt, g, right)
                                         : multiplied(Product::nt, right, g);
    if (ctx->needs_input_grad(1))
      of_right = product == Product::nt   ? multiplied(Product::tn, g, left)
                 : product == Product::nn ? multiplied(Product::tn, left, g)
                                          : multiplied(Product::nn, left, g);
    return {of_left, of_right, at::Tensor()};
  }
};

}  // namespace

const char* name(Product product) {
  return product == Product::nt ? "nt" : product == Product::nn ? "nn" : "tn";
}

at::Tensor multiply(Product product, const Products& products, const at::Tensor& left, const at::Tensor& right) {
  const at::Tensor a = plain("a product of matrices", left), b = plain("a product of matrices", right);
  if (const at::Tensor of_a = tangent_of(a), of_b = tangent_of(b); of_a.defined() || of_b.defined()) {
    const at::Tensor x = a._fw_primal(0), y = b._fw_primal(0);
    at::Tensor tangent = of_a.defined() ? multiply(product, products, of_a, y) : at::Tensor();
    if (of_b.defined()) {
      const at::Tensor more = multiply(product, products, x, of_b);
      tangent = tangent.defined() ? tangent.add(more) : more;
    }
    return with_tangent(multiply(product, products, x, y), tangent);
  }
  if (at::GradMode::is_enabled() && (a.requires_grad() || b.requires_grad()))
    return Multiply::apply(a, b, Multiplication{product, products});
  const at::NoGradGuard no_gradient;
  return function_of(product, products)(a, b);
}

}  // namespace adjoin::linalg
