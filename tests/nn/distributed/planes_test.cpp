#include "adjoin/nn/distributed/planes.hpp"

#include <ATen/ATen.h>
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
      const at::Tensor moments = moments_of_planes(x);
      const auto [variance, mean] = at::var_mean(x.to(at::kDouble), /*dim=*/{2, 0}, /*correction=*/0);
      EXPECT_TRUE(at::allclose(moments[0], mean, /*rtol=*/1e-7)) << elements;
      EXPECT_TRUE(at::allclose(moments[1], variance, /*rtol=*/1e-5, /*atol=*/1e-12)) << elements;
    }
  }
}

TEST(Planes, merge_the_moments_of_parts_of_any_sizes) {
  const at::Tensor x = numbers_of({1, 3, 40}, 1) + 100;
  const std::vector<int64_t> counts{7, 0, 30, 3};
  std::vector<at::Tensor> moments;
  for (const at::Tensor& part : x.split_with_sizes(counts, 2)) moments.push_back(moments_of_planes(part.contiguous()));
  EXPECT_TRUE(at::allclose(merged_moments(at::stack(moments), counts), moments_of_planes(x), /*rtol=*/1e-12));
  EXPECT_TRUE(merged_moments(at::zeros({2, 2, 3}, at::kDouble), {0, 0}).equal(at::zeros({2, 3}, at::kDouble)));
}

TEST(Planes, sum_gradients_and_their_products_with_the_distance_from_the_mean) {
  const at::Tensor x = numbers_of({4, 3, 1030}, 1), dy = numbers_of({4, 3, 1030}, 2), mean = numbers_of({3}, 3);
  const at::Tensor expected = at::stack({dy.sum({2, 0}), (dy * (x - mean.view({1, 3, 1}))).sum({2, 0})});
  EXPECT_TRUE(at::allclose(gradient_sums(x, dy, mean), expected, /*rtol=*/1e-12, /*atol=*/1e-10));
}

TEST(Planes, are_combined_by_their_own_numbers) {
  const at::Tensor x = numbers_of({4, 3, 37}, 1), y = numbers_of({4, 3, 37}, 2), numbers = numbers_of({3, 4}, 3);
  const auto each = [&](int64_t i) { return numbers.select(1, i).view({1, 3, 1}); };
  const at::Tensor of_x = (x - each(0)) * each(1) + each(3);
  EXPECT_TRUE(at::allclose(combine_planes(x, y, numbers), of_x + y * each(2), /*rtol=*/1e-14, /*atol=*/1e-14));
  EXPECT_TRUE(at::allclose(combine_planes(x, {}, numbers), of_x, /*rtol=*/1e-14, /*atol=*/1e-14));
}

}  // namespace
}  // namespace adjoin::nn
