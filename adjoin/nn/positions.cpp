#include "adjoin/nn/positions.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/tensor.h>

#include <vector>

namespace adjoin::nn {

at::Tensor token_numbers(const StepContext& context, int64_t rows) {
  std::vector<int64_t> tokens;
  for (const TokenPlace& place : context.places(rows)) tokens.push_back(place.token);
  return at::tensor(tokens, at::kLong);
}

at::Tensor rotary(const at::Tensor& x, const at::Tensor& tokens, double base) {
  const int64_t half = x.size(2) / 2;
  const at::Tensor speed = at::pow(base, at::arange(half, at::kDouble) / static_cast<double>(-half));
  const at::Tensor angle = tokens.to(at::kDouble).view({-1, 1, 1}) * speed;
  const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor cosine = angle.cos().to(type), sine = angle.sin().to(type);
  const at::Tensor a = x.narrow(2, 0, half), b = x.narrow(2, half, half);
  return at::cat({a * cosine - b * sine, a * sine + b * cosine}, 2).to(x.scalar_type());
}

}  // namespace adjoin::nn
