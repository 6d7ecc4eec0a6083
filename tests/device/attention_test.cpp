// Attention to whole samples on a device: by LibTorch's operations, and by its flash kernels.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "adjoin/movement/rank_device.hpp"
#include "adjoin/nn/sequence/attention.hpp"
#include "tests/support/tested_device.hpp"
#include "tests/support/waves.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

const std::vector<std::vector<int64_t>> kLengths{{6, 6, 6}, {5, 0, 9, 2}, {70, 1, 33}, {1}};

/// The result of attention and the gradients of q, k and v, with 4 heads of queries and 2 of keys.
std::vector<at::Tensor> attended(const std::vector<int64_t>& lengths, bool causal, at::TensorOptions type,
                                 at::ScalarType rounded) {
  const TokenRows rows = TokenRows::balanced(lengths, 1);
  const auto input = [&](int64_t heads, double shift) {
    return waves_of({rows.size(), heads, 8}, shift).to(rounded).to(type).requires_grad_();
  };
  const at::Tensor q = input(4, 1), k = input(2, 2), v = input(2, 3);
  const at::Tensor y = attention(q, k, v, rows, Communicator(), {.causal = causal});
  y.backward(waves_of(y.sizes(), 4).to(rounded).to(type));
  return {y.detach(), q.grad(), k.grad(), v.grad()};
}

void expect_near(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected, double tolerance) {
  for (size_t i = 0; i < found.size(); ++i) {
    const at::Tensor here = found[i].cpu().to(at::kDouble);
    EXPECT_TRUE(here.allclose(expected[i], tolerance, tolerance)) << i << ": " << (here - expected[i]).abs().max();
  }
}

void expect_as_on_cpu(at::ScalarType type, double tolerance) {
  for (const std::vector<int64_t>& lengths : kLengths)
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(std::to_string(lengths[0]) + (causal ? ", causal" : ""));
      expect_near(attended(lengths, causal, at::device(tested_device()).dtype(type), type),
                  attended(lengths, causal, at::kDouble, type), tolerance);
    }
}

TEST(DeviceAttention, is_as_on_the_cpu) {
  use_exact_kernels();
  const int64_t before = flash_calls();
  expect_as_on_cpu(at::kDouble, 1e-12);
  expect_as_on_cpu(at::kBFloat16, 0.02);
  EXPECT_EQ(flash_calls(), before);
}

TEST(DeviceAttention, of_16_bits_goes_to_flash_kernels_where_it_need_not_be_exact) {
  use_exact_kernels(false);
  const int64_t before = flash_calls(), calls = 2 * 2 * std::ssize(kLengths);  // causal or not, forward and backward
  expect_as_on_cpu(at::kBFloat16, 0.02);
  expect_as_on_cpu(at::kFloat, 1e-2);  // which the kernels do not take
  use_exact_kernels();
  if (tested_device() == kSimulated) EXPECT_EQ(flash_calls() - before, calls);
}

}  // namespace
}  // namespace adjoin::nn
