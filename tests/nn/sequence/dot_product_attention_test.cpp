#include "adjoin/nn/sequence/dot_product_attention.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/parallel/gradients.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;
using ::testing::HasSubstr;

/// What a module is given as a whole: keys, queries, values, and a mask where there is one.
struct WholeInputs {
  at::Tensor keys, queries, values, mask;
};

WholeInputs whole_inputs(int64_t rows, const DotProductAttentionOptions& options, const Communicator& world) {
  const auto draw = [&](int64_t features, int64_t seed) {
    return random_tensor({2, rows, features}, Kind::replicated, world, seed);
  };
  return {draw(options.key_dim, 1), draw(options.query_dim.value_or(options.key_dim), 2),
          draw(options.value_dim.value_or(options.key_dim), 3), at::Tensor()};
}

/// Hides about a third of the scores, and all of row 1.
at::Tensor some_hidden(int64_t samples, int64_t rows, const Communicator& world) {
  at::Tensor mask = random_tensor({samples, rows, rows}, Kind::replicated, world, 4) > 0.4;
  mask.select(1, 1).fill_(true);
  return mask;
}

at::Tensor leaf_rows(const at::Tensor& whole, const Split& rows, const Communicator& world) {
  return take_block(whole, rows.along(whole.dim() - 2), world.rank()).clone().requires_grad_();
}

void expect_module_of_one_worker(const Communicator& world, DotProductAttentionOptions options, const Split& rows,
                                 const WholeInputs& whole) {
  options.tensor = at::kDouble;
  DistributedDotProductAttention together(options, on_tp(world), "tp");
  options.distributed = false;
  DistributedDotProductAttention alone(options, one_worker(), "tp");
  initialize(*together, 5);
  initialize(*alone, 5);
  const Split mine = rows.along(1), one = Split::balanced(rows.size(), 1, 1);
  const at::Tensor wholes[] = {whole.keys, whole.queries, whole.values};
  std::vector<at::Tensor> x, x1;
  for (const at::Tensor& input : wholes) {
    x.push_back(leaf_rows(input, rows, world));
    x1.push_back(input.clone().requires_grad_());
  }
  const at::Tensor mask = whole.mask.defined() ? take_block(whole.mask, mine, world.rank()) : at::Tensor();
  const at::Tensor y = together(x[0], x[1], x[2], mask, rows), y1 = alone(x1[0], x1[1], x1[2], whole.mask, one);
  EXPECT_TRUE(at::allclose(y, take_block(y1, mine, world.rank()), 1e-11, 1e-12)) << "outputs differ";

  const at::Tensor weights = random_tensor(y1.sizes(), Kind::replicated, world, 7);
  (y * take_block(weights, mine, world.rank())).sum().backward();
  (y1 * weights).sum().backward();
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_TRUE(at::allclose(x[i].grad(), take_block(x1[i].grad(), mine, world.rank()), 1e-11, 1e-12))
        << "gradients of input " << i << " differ";
  parallel::sum_gradients(*together);
  expect_same_tensors(global_tensors(*together, true), global_tensors(*alone, true), "gradients");
}

TEST(DistributedDotProductAttention, is_the_module_of_one_worker_with_any_dims_rows_and_masks) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const int64_t size : {7, 2})  // 2 rows leave some workers without any
      for (const int64_t heads : {1, 2})
        for (const bool other_dims : {false, true}) {
          DotProductAttentionOptions options{.key_dim = 4, .num_heads = heads, .add_bias = other_dims, .chunk = 3};
          if (other_dims) options.value_dim = 6, options.query_dim = 3;
          WholeInputs whole = whole_inputs(size, options, world);
          for (const at::Tensor& mask : {at::Tensor(), some_hidden(1, size, world), some_hidden(2, size, world)}) {
            whole.mask = mask;
            SCOPED_TRACE("rows " + std::to_string(size) + ", heads " + std::to_string(heads) +
                         (other_dims ? ", other dims" : "") + (mask.defined() ? ", masked" : ""));
            expect_module_of_one_worker(world, options, Split::balanced(size, world.size(), 0), whole);
          }
        }
  });
}

TEST(DistributedDotProductAttention, weighs_values_by_the_softmax_of_keys_against_queries) {
  const DotProductAttentionOptions options{.key_dim = 4, .num_heads = 2, .distributed = false, .tensor = at::kDouble};
  DistributedDotProductAttention layer(options, one_worker(), "tp");
  initialize(*layer, 1);
  const auto weights = layer->named_parameters();
  EXPECT_EQ(weights.size(), 4);
  const Communicator alone;
  const WholeInputs x = whole_inputs(5, options, alone);
  const at::Tensor mask = some_hidden(1, 5, alone);
  const auto heads = [&](const at::Tensor& input, const char* name) {
    return at::linear(input, weights[name]).unflatten(-1, {2, 2}).transpose(1, 2);
  };
  const at::Tensor scores =
      at::matmul(heads(x.keys, "keys.weight"), heads(x.queries, "queries.weight").transpose(-1, -2)) / std::sqrt(2.0);
  const at::Tensor p = at::softmax(scores.masked_fill(mask.unsqueeze(1), -1e300), -1);
  const at::Tensor weighed = at::matmul(p, heads(x.values, "values.weight")).transpose(1, 2).flatten(-2);
  at::Tensor expected = at::linear(weighed, weights["composition.weight"]).detach().clone();
  expected.select(1, 1).zero_();  // the row that is hidden whole
  const at::Tensor y = layer(x.keys, x.queries, x.values, mask, Split::balanced(5, 1, 0));
  EXPECT_TRUE(at::allclose(y, expected, 1e-12, 1e-12)) << y << expected;
}

TEST(DistributedDotProductAttention, takes_a_sequence_without_leading_dims) {
  const DotProductAttentionOptions options{.key_dim = 4, .num_heads = 2, .distributed = false};
  DistributedDotProductAttention layer(options, one_worker(), "tp");
  initialize(*layer, 1);
  const at::Tensor x = at::ones({3, 4}), mask = at::zeros({1, 3, 3}, at::kBool);
  const Split rows = Split::balanced(3, 1, 0);
  EXPECT_EQ(layer(x, x, x, mask, rows).sizes(), x.sizes());
  EXPECT_TRUE(layer(x, x, x, mask, rows).equal(layer(x.unsqueeze(0), x.unsqueeze(0), x.unsqueeze(0), mask, rows)[0]));
}

/// The message of the InvalidArgument that a module of these options meets.
std::string refusal_of(const DotProductAttentionOptions& options) {
  return test::message_of<InvalidArgument>([&] { DistributedDotProductAttention(options, one_worker(), "tp"); });
}

TEST(DistributedDotProductAttention, refuses_options_that_do_not_fit) {
  EXPECT_THAT(refusal_of({.key_dim = 0}), HasSubstr("expected key_dim of at least 1, got 0"));
  EXPECT_THAT(refusal_of({.key_dim = 4, .chunk = 0}), HasSubstr("expected chunk of at least 1, got 0"));
  EXPECT_THAT(refusal_of({.key_dim = 4, .num_heads = 3}), HasSubstr("heads that divide key_dim and value_dim, got 3"));
  EXPECT_THAT(refusal_of({.key_dim = 4, .value_dim = 5, .num_heads = 2}), HasSubstr("got 2 for 4 and 5"));
}

TEST(DistributedDotProductAttention, names_the_worker_whose_input_does_not_fit) {
  const auto cause = [](int64_t more_rows, at::ScalarType mask_type) {
    return test::message_of<InvalidArgument>([&] {
      launch_threads(3, [&](const Communicator& world) {
        DistributedDotProductAttention layer(DotProductAttentionOptions{.key_dim = 4}, on_tp(world), "tp");
        initialize(*layer, 1);
        const Split rows = Split::balanced(7, world.size(), 0);
        const int64_t mine = rows.size(world.rank()), wrong = world.rank() == 1 ? mine + more_rows : mine;
        const at::Tensor x = at::ones({1, mine, 4}), queries = at::ones({1, wrong, 4});
        const at::Tensor mask = at::zeros({1, mine, 7}, world.rank() == 1 ? mask_type : at::kBool);
        layer(x, queries, x, mask, rows);
      });
    });
  };
  EXPECT_THAT(cause(1, at::kBool), HasSubstr("rank 1: expected queries of shape [1, 2, 4], got [1, 3, 4]"));
  EXPECT_THAT(cause(0, at::kFloat), HasSubstr("rank 1: expected a mask of Bool and shape [1, 2, 7]"));
}

}  // namespace
}  // namespace adjoin::nn
