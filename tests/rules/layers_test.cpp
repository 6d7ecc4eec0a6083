#include "tests/support/global_tensors.hpp"

namespace adjoin::rules_of_layers {
namespace {

using namespace adjoin::testing;

TEST(RulesOfLayers, convolve) {
  expect_all_as_plain({
      {"conv1d", [](const Tensors& x) { return at::conv1d(x[0], x[1], x[2], 1, 1); }, {{3, 4, 9}, {6, 4, 3}, {6}}},
      {"conv2d",
       [](const Tensors& x) { return at::conv2d(x[0], x[1], x[2], 1, 1); },
       {{2, 3, 7, 6}, {4, 3, 3, 3}, {4}}},
      {"conv2d with strides",
       [](const Tensors& x) {
         return at::conv2d(x[0], x[1], at::Tensor(), at::IntArrayRef{2, 1}, at::IntArrayRef{0, 2},
                           at::IntArrayRef{1, 2});
       },
       {{2, 3, 9, 8}, {4, 3, 3, 3}}},
      {"conv2d in groups",
       [](const Tensors& x) { return at::conv2d(x[0], x[1], x[2], 1, 1, 1, 2); },
       {{2, 4, 6, 6}, {6, 2, 3, 3}, {6}}},
      {"conv_transpose2d",
       [](const Tensors& x) { return at::conv_transpose2d(x[0], x[1], x[2], 2, 1, 1); },
       {{2, 3, 5, 4}, {3, 4, 3, 3}, {4}}},
  });
}

TEST(RulesOfLayers, pool_and_upsample) {
  expect_all_as_plain({
      {"max_pool2d", [](const Tensors& x) { return at::max_pool2d(x[0], 2); }, {{2, 3, 8, 6}}, false},
      {"max_pool2d that overlap",
       [](const Tensors& x) { return at::max_pool2d(x[0], 3, 2, 1); },
       {{2, 3, 8, 7}},
       false},
      {"avg_pool2d", [](const Tensors& x) { return at::avg_pool2d(x[0], 3, 1, 1).tanh(); }, {{2, 3, 8, 6}}},
      {"adaptive_avg_pool2d",
       [](const Tensors& x) {
         return at::adaptive_avg_pool2d(x[0], {2, 3}).tanh();
       },
       {{2, 3, 7, 6}}},
      {"upsample_nearest2d",
       [](const Tensors& x) {
         return at::upsample_nearest2d(x[0], {8, 12}).tanh();
       },
       {{2, 3, 4, 6}}},
      {"upsample_bilinear2d",
       [](const Tensors& x) {
         return at::upsample_bilinear2d(x[0], {8, 9}, false).tanh();
       },
       {{2, 3, 4, 6}}},
  });
}

TEST(RulesOfLayers, recur) {
  const auto of_both_ways = [](const Tensors& x) {
    const auto [y, h, c] = at::lstm(x[0], at::TensorList{x[1], x[2]}, {x[3], x[4], x[5], x[6], x[3], x[4], x[6], x[5]},
                                    true, 1, 0, true, true, false);
    return y * c.sum() + h.tanh().sum();
  };
  const auto of_two_layers = [](const Tensors& x) {
    const auto [y, h] = at::gru(x[0], x[1], {x[2], x[3], x[4], x[4]}, false, 2, 0, true, false, true);
    return y.tanh() * h.sum();
  };
  expect_all_as_plain({
      {"lstm both ways", of_both_ways, {{4, 3, 5}, {2, 3, 2}, {2, 3, 2}, {8, 5}, {8, 2}, {8}, {8}}},
      {"gru of two layers", of_two_layers, {{3, 4, 2}, {2, 3, 2}, {6, 2}, {6, 2}, {6, 2}}},
      {"rnn",
       [](const Tensors& x) {
         return std::get<0>(at::rnn_tanh(x[0], x[1], {x[2], x[3]}, false, 1, 0, true, false, false));
       },
       {{4, 3, 5}, {1, 3, 2}, {2, 5}, {2, 2}}},
  });
}

TEST(RulesOfLayers, normalise) {
  expect_all_as_plain({
      {"batch_norm",
       [](const Tensors& x) { return at::batch_norm(x[0], x[1], x[2], {}, {}, true, 0.1, 1e-3, false).tanh(); },
       {{4, 3, 5}, {3}, {3}}},
      {"batch_norm that keeps statistics",
       [](const Tensors& x) {
         const at::Tensor mean = x[3].detach() * 1, variance = x[4].detach().square() + 1;
         const at::Tensor y = at::batch_norm(x[0], x[1], x[2], mean, variance, true, 0.3, 1e-3, false);
         return y.tanh() + (mean + variance.sin()).view({3, 1});
       },
       {{4, 3, 5}, {3}, {3}, {3}, {3}}},
      {"batch_norm by statistics",
       [](const Tensors& x) {
         return at::batch_norm(x[0], x[1], x[2], x[3].detach(), x[4].detach().square() + 1, false, 0.1, 1e-3, false);
       },
       {{4, 3, 5}, {3}, {3}, {3}, {3}}},
      {"group_norm", [](const Tensors& x) { return at::group_norm(x[0], 2, x[1], x[2], 1e-3); }, {{3, 4, 5}, {4}, {4}}},
      {"layer_norm",
       [](const Tensors& x) {
         return at::layer_norm(x[0], {4, 6}, x[1], x[2], 1e-3);
       },
       {{3, 4, 6}, {4, 6}, {4, 6}}},
      {"rms_norm", [](const Tensors& x) { return at::rms_norm(x[0], {6}, x[1], 1e-3); }, {{3, 4, 6}, {6}}},
  });
}

}  // namespace
}  // namespace adjoin::rules_of_layers
