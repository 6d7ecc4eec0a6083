#include "adjoin/nn/cross_entropy.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>

#include <cmath>
#include <memory>
#include <vector>

#include "adjoin/base/error.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

TEST(CrossEntropy, of_uneven_parts_adds_up_to_that_of_the_whole) {
  const at::Tensor scores = at::tensor({2.0, -1.0, 0.5, 0.25, -3.0, 1.0, 0.0, 4.0}, at::kDouble).view({4, 2});
  const at::Tensor labels = at::tensor({0, 1, 1, 0}, at::kLong);
  const auto part = [&](int64_t begin, int64_t count) {
    return cross_entropy(scores.narrow(0, begin, count), labels.narrow(0, begin, count)).item<double>();
  };
  const double mean = torch::nn::functional::cross_entropy(scores, labels).item<double>();
  EXPECT_NEAR(part(0, 3) + part(3, 1) + part(0, 0), 4 * mean, 4e-15);
}

TEST(CrossEntropy, of_half_precision_scores_is_computed_in_float32) {
  EXPECT_EQ(cross_entropy(at::ones({1, 2}, at::kBFloat16), at::zeros({1}, at::kLong)).scalar_type(), at::kFloat);
}

struct CountVocabularyCalls : Observer {
  void begin(const Call&) override { ++count; }
  int count = 0;
};

// Against LibTorch's on one worker, also where a rank has no words, rows have no target, and scores are far from 0.
TEST(VocabularyParallelCrossEntropy, is_the_loss_of_one_worker_with_two_all_reduces_forward) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const int64_t words : {11, 3})
      for (const double shift : {0.0, 1000.0, -1000.0}) {
        const Split split = Split::balanced(words, world.size(), 0);
        const at::Tensor whole = random_tensor({6, words}, Kind::replicated, world) * 3 + shift;
        const at::Tensor targets = at::tensor(std::vector<int64_t>{2, -1, 0, 1, words - 1, -1}, at::kLong);
        const at::Tensor one = whole.clone().requires_grad_(true);
        const at::Tensor expected =
            at::cross_entropy_loss(one, targets, {}, at::Reduction::Sum, /*ignore_index=*/-1) * 0.5;
        expected.backward();

        const Range mine{split.offset(world.rank()), split.offset(world.rank() + 1)};
        const at::Tensor scores = whole.narrow(1, mine.begin, mine.size()).clone().requires_grad_(true);
        const auto counter = std::make_shared<CountVocabularyCalls>();
        const at::Tensor loss =
            vocabulary_parallel_cross_entropy(scores, targets, world.observed_by(counter), split) * 0.5;
        EXPECT_EQ(counter->count, 2);
        loss.backward();
        EXPECT_EQ(counter->count, 2);
        EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-10);
        EXPECT_TRUE(at::allclose(scores.grad(), one.grad().narrow(1, mine.begin, mine.size()), 1e-11, 1e-11));
      }
  });
}

TEST(VocabularyParallelCrossEntropy, of_half_precision_scores_is_computed_in_float32) {
  const at::Tensor scores = at::zeros({1000, 7}, at::kBFloat16).requires_grad_(true);
  const at::Tensor loss =
      vocabulary_parallel_cross_entropy(scores, at::zeros({1000}, at::kLong), Communicator(), Split::balanced(7, 1, 0));
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  EXPECT_NEAR(loss.item<double>(), 1000 * std::log(7.0), 1e-2);
  loss.backward();
  EXPECT_EQ(scores.grad().scalar_type(), at::kBFloat16);
}

TEST(VocabularyParallelCrossEntropy, of_no_rows_is_zero) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const Split split = Split::balanced(5, world.size(), 0);
    const at::Tensor scores = at::zeros({0, split.size(world.rank())}).requires_grad_(true);
    const at::Tensor loss = vocabulary_parallel_cross_entropy(scores, at::zeros({0}, at::kLong), world, split);
    loss.backward();
    EXPECT_EQ(loss.item<double>(), 0);
  });
}

TEST(VocabularyParallelCrossEntropy, refuses_targets_that_are_no_words) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const Split split = Split::balanced(5, world.size(), 0);
    const at::Tensor scores = at::zeros({2, split.size(world.rank())});
    const auto loss = [&](const at::Tensor& targets) {
      return vocabulary_parallel_cross_entropy(scores, targets, world, split);
    };
    EXPECT_THROW(loss(at::tensor({0, 5}, at::kLong)), InvalidArgument);
    EXPECT_THROW(loss(at::tensor({-2, 0}, at::kLong)), InvalidArgument);
    EXPECT_THROW(loss(at::tensor({0}, at::kLong)), InvalidArgument);
    EXPECT_THROW(loss(at::tensor({0.0, 1.0})), InvalidArgument);
  });
}

}  // namespace
}  // namespace adjoin::nn
