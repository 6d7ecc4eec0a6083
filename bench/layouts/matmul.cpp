#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <memory>

#include "adjoin/base/error.hpp"
#include "adjoin/linalg/matmul.hpp"
#include "adjoin/partition/split.hpp"
#include "adjoin/train/bench/benches.hpp"

namespace adjoin::train {
namespace {

using linalg::Product;
using Multiply = std::function<at::Tensor(const at::Tensor& left, const at::Tensor& right)>;

/// A product of random factors with this number of rows.
Pass pass_of(const Multiply& multiply, const BenchMatmulOptions& options, int64_t rows) {
  const bool is_nt = options.product == Product::nt;
  const int64_t wide = options.length, narrow = options.features;
  const at::Tensor left = at::randn({rows, is_nt ? narrow : wide}).requires_grad_();
  const at::Tensor right = at::randn({rows, narrow}).requires_grad_();
  const at::Tensor gradient = at::randn({rows, is_nt ? wide : narrow});
  const auto product = std::make_shared<at::Tensor>();
  return {[=] { *product = multiply(left, right); },
          [=] {
            torch::autograd::grad({*product}, {left, right}, {gradient});
          }};
}

Multiply distributed_product(const BenchMatmulOptions& options, const Communicator& world, const Split& rows) {
  const auto function = options.product == Product::nt   ? linalg::matmul_nt
                        : options.product == Product::nn ? linalg::matmul_nn
                                                         : linalg::matmul_tn;
  return [=](const at::Tensor& left, const at::Tensor& right) {
    return function(left, right, world, rows, options.chunk);
  };
}

Multiply local_product(Product product) {
  return [=](const at::Tensor& left, const at::Tensor& right) {
    return product == Product::nt   ? at::matmul(left, right.t())
           : product == Product::nn ? at::matmul(left, right)
                                    : at::matmul(left.t(), right);
  };
}

}  // namespace

Comparison bench_matmul(const BenchMatmulOptions& options) {
  require(options.length >= 1 && options.features >= 1, "bench matmul: expected at least one row and one feature");
  const auto distributed = [&](const Communicator& world) {
    const Split rows = Split::balanced(options.length, world.size(), 0);
    return pass_of(distributed_product(options, world, rows), options, rows.size(world.rank()));
  };
  const auto local = [&](const Communicator&) {
    return pass_of(local_product(options.product), options, options.length);
  };
  return side_by_side(options.run, {{{"product", distributed}, {"one worker, all threads", local, true}}}).front();
}

}  // namespace adjoin::train
