#include <torch/nn/functional.h>

#include "tests/support/global_tensors.hpp"

namespace adjoin::rules_of_operations {
namespace {

using namespace adjoin::testing;

TEST(Rules, of_pointwise_operations) {
  expect_all_as_plain({
      {"add", [](const Tensors& x) { return x[0] + x[1]; }, {{4, 5}, {4, 5}}},
      {"add broadcast", [](const Tensors& x) { return x[0] + x[1]; }, {{4, 5}, {5}}},
      {"add both broadcast", [](const Tensors& x) { return x[0] - x[1]; }, {{4, 1}, {1, 5}}},
      {"mul", [](const Tensors& x) { return x[0] * x[1] * 2; }, {{3, 4, 5}, {4, 1}}},
      {"numbers", [](const Tensors& x) { return 3 - x[0] / 2 + 1; }, {{6, 2}}},
      {"gelu", [](const Tensors& x) { return at::gelu(x[0]).tanh(); }, {{6, 3}}},
      {"where", [](const Tensors& x) { return at::where(x[0] > 0, x[0], x[1]); }, {{6, 3}, {3}}},
      {"masked_fill", [](const Tensors& x) { return x[0].masked_fill(x[1] > 0, 2.5); }, {{6, 3}, {6, 1}}},
      {"in place",
       [](const Tensors& x) {
         at::Tensor y = x[0] * 2;
         y += x[1];
         y.mul_(3).tanh_();
         return y + x[0];
       },
       {{4, 5}, {5}}},
      {"after a sum",
       [](const Tensors& x) {
         at::Tensor y = at::matmul(x[0], x[1]);
         y += x[2];
         y.relu_();
         return y;
       },
       {{4, 6}, {6, 3}, {3}}},
      {"cast", [](const Tensors& x) { return x[0].to(at::kFloat).to(at::kDouble) * 0 + x[0]; }, {{4, 5}}},
  });
}

TEST(Rules, of_products) {
  expect_all_as_plain({
      {"linear", [](const Tensors& x) { return at::linear(x[0], x[1], x[2]); }, {{3, 4, 6}, {5, 6}, {5}}},
      {"linear without bias", [](const Tensors& x) { return at::linear(x[0], x[1]); }, {{7, 6}, {5, 6}}},
      {"matmul", [](const Tensors& x) { return at::matmul(x[0], x[1]); }, {{2, 3, 4, 6}, {6, 5}}},
      {"matmul broadcast", [](const Tensors& x) { return at::matmul(x[0], x[1]); }, {{2, 1, 4, 6}, {3, 6, 5}}},
      {"mm", [](const Tensors& x) { return x[0].mm(x[1]); }, {{4, 6}, {6, 5}}},
      {"bmm", [](const Tensors& x) { return x[0].bmm(x[1]); }, {{3, 4, 6}, {3, 6, 5}}},
      {"mv", [](const Tensors& x) { return at::matmul(x[0], x[1]); }, {{4, 6}, {6}}},
      {"dot", [](const Tensors& x) { return at::matmul(x[0], x[1]); }, {{6}, {6}}},
      {"addmm", [](const Tensors& x) { return at::addmm(x[0], x[1], x[2].t()); }, {{5}, {4, 6}, {5, 6}}},
      {"baddbmm",
       [](const Tensors& x) { return at::baddbmm(x[0], x[1], x[2], 0.5, 2); },
       {{3, 1, 5}, {3, 4, 6}, {3, 6, 5}}},
      {"einsum",
       [](const Tensors& x) {
         return at::einsum("bij,bjk->bik", {x[0], x[1]});
       },
       {{3, 4, 6}, {3, 6, 5}}},
      {"two",
       [](const Tensors& x) { return at::linear(at::gelu(at::linear(x[0], x[1], x[2])), x[3], x[4]) + x[0]; },
       {{3, 4, 6}, {8, 6}, {8}, {6, 8}, {6}}},
  });
}

TEST(Rules, of_views) {
  expect_all_as_plain({
      {"view",
       [](const Tensors& x) {
         return x[0].reshape({4, 3, 2}) * 2;
       },
       {{4, 6}}},
      {"merge",
       [](const Tensors& x) {
         return x[0].reshape({12, 5}) * 2;
       },
       {{3, 4, 5}}},
      {"merge all", [](const Tensors& x) { return x[0].reshape({-1}).tanh(); }, {{3, 4, 5}}},
      {"merge and back",
       [](const Tensors& x) {
         return (x[0].reshape({12, 5}) * 2).reshape({3, 4, 5}) + x[0];
       },
       {{3, 4, 5}}},
      {"heads",
       [](const Tensors& x) {
         return x[0].reshape({2, 5, 4, 3}).transpose(1, 2).contiguous().view({8, 5, 3}).exp();
       },
       {{2, 5, 12}}},
      {"flatten",
       [](const Tensors& x) {
         return x[0].flatten(1).unflatten(1, {2, 6});
       },
       {{3, 4, 3}}},
      {"transpose",
       [](const Tensors& x) {
         return x[0].transpose(0, 2).permute({1, 0, 2}) * 2;
       },
       {{3, 4, 5}}},
      {"unsqueeze",
       [](const Tensors& x) {
         return x[0].unsqueeze(1).expand({3, 6, 4}).squeeze(0) * 2;
       },
       {{3, 4}}},
      {"t", [](const Tensors& x) { return x[0].t() + x[1]; }, {{3, 4}, {4, 3}}},
      {"like",
       [](const Tensors& x) {
         return x[0] + at::ones_like(x[0]) + x[0].new_zeros({3, 4});
       },
       {{3, 4}}},
  });
}

TEST(Rules, of_parts) {
  expect_all_as_plain({
      {"slice", [](const Tensors& x) { return x[0].slice(1, 1, 4) * 2; }, {{4, 6}}},
      {"slice with steps", [](const Tensors& x) { return x[0].slice(0, 0, 6, 2) * 2; }, {{6, 3}}},
      {"select", [](const Tensors& x) { return x[0].select(0, 2).tanh(); }, {{5, 6}}},
      {"chunk",
       [](const Tensors& x) {
         auto p = x[0].chunk(3, -1);
         return p[0] * p[1] + p[2];
       },
       {{4, 6}}},
      {"split",
       [](const Tensors& x) {
         auto p = x[0].split({1, 4}, 0);
         return p[1] * p[0];
       },
       {{5, 6}}},
      {"cat",
       [](const Tensors& x) {
         return at::cat({x[0], x[1]}, 1).tanh();
       },
       {{4, 6}, {4, 3}}},
      {"unbind",
       [](const Tensors& x) {
         const auto p = x[0].unbind(1);
         return p[0] * p[1] + p.back();
       },
       {{5, 3, 4}}},
      {"foreach",
       [](const Tensors& x) {
         const auto p = at::_foreach_mul({x[0], x[1]}, at::_foreach_add({x[0], x[1]}, 2.0));
         return p[0].sum(0) + p[1].sum(0);
       },
       {{5, 4}, {3, 4}}},
      {"stack",
       [](const Tensors& x) {
         return at::stack({x[0], x[1] * 2}, 1);
       },
       {{4, 6}, {4, 6}}},
      {"index_select",
       [](const Tensors& x) {
         return x[0].index_select(0, at::tensor({3, 0, 0, 2}, at::kLong));
       },
       {{5, 6}}},
      {"index",
       [](const Tensors& x) {
         return x[0].index({at::tensor({3, 0, 0, 2}, at::kLong)});
       },
       {{5, 6}}},
      {"index two",
       [](const Tensors& x) {
         return x[0].index({at::tensor({3, 0, 1}, at::kLong), at::tensor({0, 2, 1}, at::kLong)}).tanh();
       },
       {{5, 6, 2}}},
      {"gather",
       [](const Tensors& x) {
         return x[0].gather(1, at::arange(8).view({4, 2}) % 6);
       },
       {{4, 6}}},
      {"scatter_add",
       [](const Tensors& x) {
         return x[0].scatter_add(1, at::arange(8).view({4, 2}) % 6, x[1]);
       },
       {{4, 6}, {4, 2}}},
      {"cumsum", [](const Tensors& x) { return x[0].cumsum(1) * x[0]; }, {{4, 6}}},
      {"flip", [](const Tensors& x) { return x[0].flip({0}).roll({1}, {1}).tril(); }, {{4, 6}}},
      {"sort", [](const Tensors& x) { return std::get<0>(x[0].sort(1)); }, {{4, 6}}, false},
      {"topk", [](const Tensors& x) { return std::get<0>(x[0].topk(2, 1)); }, {{4, 6}}, false},
      {"pad",
       [](const Tensors& x) {
         return at::constant_pad_nd(x[0], {1, 2});
       },
       {{4, 6}}},
      {"repeat",
       [](const Tensors& x) {
         return x[0].repeat({2, 1, 3});
       },
       {{4, 6}}},
  });
}

TEST(Rules, of_reductions) {
  expect_all_as_plain({
      {"sum", [](const Tensors& x) { return x[0].sum(); }, {{4, 6}}},
      {"sum of dims",
       [](const Tensors& x) {
         return x[0].sum({1, 2}) * 2;
       },
       {{3, 4, 5}}},
      {"mean", [](const Tensors& x) { return x[0].mean() * x[0].mean(at::IntArrayRef{0}, true); }, {{4, 6}}},
      {"amax", [](const Tensors& x) { return x[0].amax({1}) + x[0].logsumexp({1}); }, {{4, 6}}},
      {"var", [](const Tensors& x) { return x[0].var({1}, false); }, {{4, 6}}},
      {"norm", [](const Tensors& x) { return x[0].norm() + at::linalg_vector_norm(x[0], 1); }, {{4, 6}}},
      {"mse",
       [](const Tensors& x) { return at::mse_loss(x[0], x[1]) + at::l1_loss(x[0], x[1], at::Reduction::Sum); },
       {{4, 6}, {4, 6}}},
  });
}

TEST(Rules, of_rows) {
  const at::Tensor ids = at::tensor({1, 4, 0, 3, 3, 2}, at::kLong).view({2, 3});
  const at::Tensor classes = at::tensor({1, 4, 0, -100, 3, 2}, at::kLong);
  expect_all_as_plain({
      {"layer_norm", [](const Tensors& x) { return at::layer_norm(x[0], {6}, x[1], x[2]); }, {{3, 4, 6}, {6}, {6}}},
      {"softmax", [](const Tensors& x) { return x[0].softmax(1) + x[0].log_softmax(0); }, {{4, 6}}},
      {"embedding", [=](const Tensors& x) { return at::embedding(x[0], ids); }, {{5, 6}}},
      {"embedding with padding", [=](const Tensors& x) { return at::embedding(x[0], ids, 3); }, {{5, 6}}},
      {"cross_entropy", [=](const Tensors& x) { return at::cross_entropy_loss(x[0], classes); }, {{6, 5}}},
      {"attention",
       [](const Tensors& x) { return at::scaled_dot_product_attention(x[0], x[1], x[2]); },
       {{2, 3, 5, 4}, {2, 3, 6, 4}, {2, 3, 6, 4}},
       false},
      {"causal attention",
       [](const Tensors& x) { return at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0.0, true); },
       {{2, 3, 5, 4}, {2, 3, 5, 4}, {2, 3, 5, 4}},
       false},
      {"masked attention",
       [](const Tensors& x) { return at::scaled_dot_product_attention(x[0], x[1], x[2], x[3]); },
       {{2, 3, 5, 4}, {2, 3, 6, 4}, {2, 3, 6, 4}, {2, 1, 5, 6}},
       false},
  });
}

}  // namespace
}  // namespace adjoin::rules_of_operations
