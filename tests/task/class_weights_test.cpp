#include "adjoin/task/class_weights.hpp"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "adjoin/base/error.hpp"
#include "adjoin/texts/text_classification.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::train {
namespace {

using test::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<int64_t> kLabels = {0, 2, 0, 1, 0, 0, 2, 0};  // 5, 1 and 2 of the classes

Configuration weighted(const std::string& weights) {
  Configuration c = configuration_of("tiny");
  c.class_weights = weights;
  return c;
}

data::TokenStore texts() {
  data::TokenStoreBuilder builder(100);
  for (const int64_t label : kLabels) builder.add(std::vector<int64_t>{2, 5, 3}, label);
  return builder.finish();
}

std::vector<double> weights_of(const std::string& weights) {
  return class_weights(weighted(weights), data::ClassNames({"a", "b", "c"}), texts());
}

TEST(ClassWeights, are_listed_or_balanced) {
  EXPECT_THAT(weights_of(""), IsEmpty());
  EXPECT_THAT(weights_of("1,2.5,0.5"), ElementsAre(1, 2.5, 0.5));
  EXPECT_THAT(weights_of("1, 2.5 , 0.5"), ElementsAre(1, 2.5, 0.5));
  // As sklearn.utils.class_weight.compute_class_weight("balanced", …): 8 samples / (3 classes * those of the class).
  EXPECT_THAT(weights_of("balanced"), ElementsAre(8.0 / 15, 8.0 / 3, 8.0 / 6));
  EXPECT_EQ(class_weights(weighted("balanced"), data::ClassNames({"a", "b", "c", "none"}), texts()).size(), 4u);
}

TEST(ClassWeights, are_refused_that_are_no_list_of_positive_numbers_one_for_each_class) {
  const auto refusal = [](const std::string& weights) {
    return message_of<InvalidArgument>([&] { validate(weighted(weights)); });
  };
  EXPECT_EQ(refusal("balanced"), "");
  EXPECT_EQ(refusal("1,2"), "");
  for (const std::string word : {"Balanced", "balance"})
    EXPECT_EQ(refusal(word),
              "--class-weights is " + word + ", expected \"balanced\" or a number for each class, as 1,2.5");
  EXPECT_EQ(refusal("1,many"), "--class-weights: a weight is many, expected a decimal number");
  EXPECT_EQ(refusal("1,,2"), "--class-weights: a weight is empty, expected a decimal number");
  for (const char* weight : {"0", "-1", "nan", "inf"}) EXPECT_THAT(refusal(weight), HasSubstr("a number above 0"));
  for (const std::string weight : {"1e-320", "1e-46"})  // which are 0 in float32
    EXPECT_EQ(refusal("1," + weight), "--class-weights: a weight is " + weight +
                                          ", expected at least 1.2e-38, as the loss is computed in float32");
  EXPECT_EQ(refusal("1,1.2e-38"), "");
  EXPECT_EQ(message_of<InvalidArgument>([] { weights_of("1,2"); }),
            "--class-weights 1,2: expected 3 weights, of \"a\", \"b\", \"c\", got 2");
  Configuration decoder = configuration_of("gpt-tiny");
  decoder.class_weights = "balanced";
  EXPECT_EQ(message_of<InvalidArgument>([&] { validate(decoder); }),
            "--class-weights is for a classifier, and --model is decoder");
}

TEST(ClassWeights, make_the_loss_of_any_parts_of_a_batch_the_weighted_mean_of_torch) {
  Configuration c = weighted("0.5,4,1.5");
  std::vector<std::string> pieces = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"};
  const TextClassification task(c, {{data::WordPiece(pieces), data::ClassNames({"a", "b", "c"})}, texts(), texts()});
  const at::Tensor scores = at::randn({8, 3}, at::kDouble), labels = at::tensor(kLabels, at::kLong);
  std::vector<int64_t> samples(kLabels.size());
  std::iota(samples.begin(), samples.end(), int64_t{0});
  const auto loss_in_parts = [&](data::Part part, int parts, bool training) {
    double sum = 0;
    for (int i = 0; i < parts; ++i) {
      const data::BatchPart mine = data::part_of(std::ssize(samples), i, parts);
      const MicroBatch batch = task.micro_batch(part, samples, mine, {.training = training});
      sum += task.loss(scores.narrow(0, mine.begin, mine.count), batch, Grid(Communicator(), GridShape({{"tp", 1}})))
                 .item<double>();
    }
    return sum / task.loss_denominator(part, samples);
  };
  const at::Tensor weights = at::tensor({0.5, 4.0, 1.5}, at::kDouble);
  const double mean = at::cross_entropy_loss(scores, labels, weights).item<double>();
  for (const int parts : {1, 2, 3, 8, 11}) EXPECT_NEAR(loss_in_parts(data::Part::train, parts, true), mean, 1e-12);
  const double plain =
      at::cross_entropy_loss(scores, labels).item<double>();  // in an evaluation, also of held-out samples
  EXPECT_NEAR(loss_in_parts(data::Part::train, 3, false), plain, 1e-12);
  EXPECT_NEAR(loss_in_parts(data::Part::test, 3, false), plain, 1e-12);
}

}  // namespace
}  // namespace adjoin::train
