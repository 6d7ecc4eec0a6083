#include "adjoin/nn/distributed/planes.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/var_mean.h>
#include <gtest/gtest.h>

#include "tests/support/adjoint.hpp"

namespace adjoin::nn {
namespace {

at::Tensor numbers_of(at::IntArrayRef shape, int64_t seed) {
  return testing::random_tensor(shape, Kind::replicated, Communicator(), seed);
}

TEST(Planes, have_the_moments_of_one_pass_where_the_mean_is_large) {
  for (const int64_t elements : {1, 5, 16, 1023, 1024, 1025, 5000}) {
    for (int seed = 0; seed < 50; ++seed) {
      const at::Tensor x = (numbers_of({2, 3, elements}, seed) + 1e4).to(at::kFloat);
      const auto [mean, variance] = moments_of_planes(x);
      const auto [true_variance, true_mean] = at::var_mean(x.to(at::kDouble), /*dim=*/{2}, /*correction=*/0);
      EXPECT_TRUE(at::allclose(mean.to(at::kDouble), true_mean, /*rtol=*/1e-7)) << elements;
      EXPECT_TRUE(at::allclose(variance.to(at::kDouble), true_variance, /*rtol=*/1e-5, /*atol=*/1e-12)) << elements;
    }
  }
}

TEST(Planes, are_combined_by_their_own_numbers) {
  const at::Tensor x = numbers_of({4, 3, 37}, 1), y = numbers_of({4, 3, 37}, 2), numbers = numbers_of({4, 3}, 3);
  const auto each = [&](int64_t i) { return numbers[i].view({1, 3, 1}); };
  EXPECT_TRUE(at::allclose(combine_planes(x, numbers[0], numbers[1], y, numbers[2], numbers[3]),
                           (x - each(0)) * each(1) + y * each(2) + each(3), /*rtol=*/1e-14, /*atol=*/1e-14));
}

}  // namespace
}  // namespace adjoin::nn
