#include "adjoin/train/trainer.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <optional>

#include "adjoin/base/error.hpp"
#include "adjoin/data/sampler.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/texts/class_counts.hpp"
#include "adjoin/texts/reviews_input.hpp"
#include "adjoin/texts/text_classification.hpp"
#include "adjoin/train/interrupt.hpp"
#include "adjoin/train/schedule.hpp"
#include "tests/support/configurations.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::train {
namespace {

using namespace adjoin::testing;

/// A model with every option that has a mask.
Configuration uneven_classifier() {
  Configuration c = uneven("classifier");
  c.precision = Precision::fp64;
  c.hidden = 25;
  c.sequence = 40;
  c.token_dropout = 0.1;
  c.seed = 9;
  return c;
}

struct Corpus {
  data::WordPiece tokenizer;
  data::TokenStore dataset;
};

const Corpus& corpus() {
  static const Corpus corpus = [] {
    TextPart texts({.data = "sample", .columns = {}, .samples = 101}, data::Part::train, {});
    data::WordCounter words;
    texts.count_words(words);
    data::WordPiece tokenizer(data::learn_vocabulary(words, {.size = 300}));
    return Corpus{tokenizer, texts.tokenize(tokenizer, 40)};
  }();
  return corpus;
}

/// A task, and one worker that trains for it.
struct Learner {
  Learner(const Configuration& c, const Communicator& world, const data::TokenStore& test = corpus().dataset)
      : task(c, {{corpus().tokenizer, data::ClassNames()}, corpus().dataset, test}), trainer(c, task, world) {}
  TextClassification task;
  Trainer trainer;
};

constexpr int64_t kSteps = 50;

std::vector<double> losses(const Configuration& configuration, const Communicator& world, int64_t steps = kSteps,
                           double loss_scale = 1) {
  Learner learner(configuration, world);
  learner.trainer.initialize();
  data::Sampler sampler({.samples = corpus().dataset.size(), .batch = configuration.batch, .seed = 1});
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step)
    losses.push_back(
        learner.trainer.step(sampler.next(), step, learning_rate(configuration, step, kSteps), loss_scale).loss);
  return losses;
}

TEST(Trainer, trains_the_same_model_in_every_layout) {
  Configuration one = uneven_classifier();
  const std::vector<double> expected = losses(one, Communicator());
  EXPECT_LT(expected.back(), expected.front()) << "nothing was learned, so agreement would mean little";
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    for (int tp = 1; tp <= world.size(); ++tp) {
      if (world.size() % tp != 0) continue;
      Configuration c = uneven_classifier();
      c.dp = world.size() / tp;
      c.tp = tp;
      c.microbatches = 1 + c.dp % 3;  // of a part of one to seven samples, so that some have none
      const std::vector<double> found = losses(c, world);
      for (size_t step = 0; step < expected.size(); ++step)
        ASSERT_NEAR(found[step], expected[step], 1e-9 * expected[step])
            << "dp " << c.dp << " tp " << tp << " micro-batches " << c.microbatches << " step " << step;
    }
  });
}

TEST(Trainer, takes_batches_of_fewer_samples_than_workers) {
  const auto train_on_one = [](const Configuration& configuration, const Communicator& world) {
    Learner learner(configuration, world);
    Trainer& trainer = learner.trainer;
    trainer.initialize();
    const std::vector<int64_t> batch{3};
    trainer.step(batch, 0, 1e-3);
    return trainer.step(batch, 1, 1e-3).loss;
  };
  for (const char* pooling : {"cls", "mean"}) {
    Configuration c = uneven_classifier();
    set("pooling", pooling, c);
    const double expected = train_on_one(c, Communicator());
    for_each_world({2, 3}, [&](const Communicator& world) {
      Configuration parallel = c;
      parallel.dp = world.size();
      EXPECT_NEAR(train_on_one(parallel, world), expected, 1e-9 * expected) << pooling;
    });
  }
}

TEST(Trainer, evaluates_the_exact_mean_in_every_layout) {
  const auto evaluate = [](const Configuration& configuration, const Communicator& world, int64_t batch) {
    Learner learner(configuration, world);
    Trainer& trainer = learner.trainer;
    trainer.initialize();
    return trainer.evaluate(data::Part::test, batch);
  };
  const Evaluation expected = evaluate(uneven_classifier(), Communicator(), 1);
  for_each_world({1, 2, 3}, [&](const Communicator& world) {
    Configuration c = uneven_classifier();
    c.dp = world.size();
    for (const int64_t batch : {2, 64}) {
      const Evaluation found = evaluate(c, world, batch);
      EXPECT_NEAR(found.loss, expected.loss, 1e-12);
      EXPECT_EQ(found.measures, expected.measures);
    }
  });
}

/// Weights with which every sample has the scores 0 and ln 3, so that class 1 has the probability 3/4.
void make_sure_by_three_to_one(const torch::nn::Module& model) {
  const at::NoGradGuard no_gradient;
  for (const nn::Parameter& parameter : nn::parameters_of(model)) {
    parameter.tensor.zero_();
    if (parameter.name == "norm.bias") parameter.tensor.fill_(1);  // what the classifier then sees of each sample
    if (parameter.name == "classifier.column.weight") parameter.tensor[0][0] = 100;  // as large as its GELU
    if (parameter.name == "classifier.row.weight") parameter.tensor[1][0] = std::log(3.0) / 100;
  }
}

TEST(Trainer, evaluates_to_the_mean_that_is_computed_by_hand) {
  data::TokenStoreBuilder builder(/*words=*/10);
  for (const int64_t label : {1, 0, 1, 1, 0, 1, 1}) builder.add(std::vector<int64_t>{2, 5, 6, 3}, label);
  const data::TokenStore seven = builder.finish();
  for_each_world({1, 2, 3}, [&](const Communicator& world) {
    Configuration c = uneven_classifier();
    c.dp = world.size();
    Learner learner(c, world, seven);
    Trainer& trainer = learner.trainer;
    make_sure_by_three_to_one(trainer.module());
    for (const int64_t batch : {1, 3, 64}) {
      const Evaluation found = trainer.evaluate(data::Part::test, batch);
      EXPECT_NEAR(found.loss, (5 * std::log(4.0 / 3) + 2 * std::log(4.0)) / 7, 1e-14);
      EXPECT_DOUBLE_EQ(found.measures.at(0).value, 5.0 / 7);
      const ClassCounts counts(2, found.tally);
      EXPECT_EQ(counts.pair(0, 1), 2);  // each sample once, whatever dp is
      EXPECT_EQ(counts.pair(1, 1), 5);
      EXPECT_DOUBLE_EQ(counts.f1(1), 10.0 / 12);
      EXPECT_DOUBLE_EQ(counts.f1(0), 0);
      EXPECT_FALSE(found.interrupted);
    }
  });
}

TEST(Trainer, leaves_an_evaluation_at_an_interrupt_on_any_rank) {
  for_each_world({1, 2}, [&](const Communicator& world) {
    std::optional<InterruptGuard> guard;  // of the process
    if (world.rank() == 0) guard.emplace("");
    Configuration c = uneven_classifier();
    c.dp = world.size();
    Learner learner(c, world);
    Trainer& trainer = learner.trainer;
    trainer.initialize();
    world.barrier();
    if (world.rank() == 0) std::raise(SIGTERM);
    world.barrier();
    EXPECT_TRUE(trainer.evaluate(data::Part::test).interrupted);
    world.barrier();
  });
}

TEST(Trainer, in_16_bits_keeps_float32_weights_and_follows_float32_losses_in_every_layout) {
  Configuration c = uneven_classifier();
  c.precision = Precision::fp32;
  constexpr int64_t kFew = 3;
  const std::vector<double> single = losses(c, Communicator(), kFew);
  // They differ by rounding: bfloat16 has 8 bits of precision, float16 11.
  for (const auto& [precision, tolerance] : {std::pair(Precision::bf16, 0.01), std::pair(Precision::fp16, 0.002)}) {
    c.precision = precision;
    for_each_world({1, 2}, [&, tolerance = tolerance](const Communicator& world) {
      for (const int64_t tp : {1, world.size()}) {
        Configuration layout = c;
        layout.tp = tp;
        layout.dp = world.size() / tp;
        const std::vector<double> half = losses(layout, world, kFew, /*loss_scale=*/1024);
        EXPECT_NE(half, single);
        for (size_t step = 0; step < half.size(); ++step) EXPECT_NEAR(half[step], single[step], tolerance);
      }
    });
    const Learner learner(c, Communicator());
    for (const at::Tensor& parameter : learner.trainer.module().parameters())
      EXPECT_EQ(parameter.scalar_type(), at::kFloat);
  }
}

TEST(Trainer, in_fp16_skips_a_step_whose_scaled_gradients_overflow_and_takes_it_with_a_lower_scale) {
  const auto expect_skipped = [](const Configuration& c, const Communicator& world) {
    Learner learner(c, world);
    Trainer& trainer = learner.trainer;
    trainer.initialize();
    const auto weights = [&] {
      std::vector<at::Tensor> all;
      for (const nn::Parameter& p : learner.trainer.parameters())
        if (p.tensor.numel() > 0) all.push_back(p.tensor.detach().clone());
      return all;
    };
    const std::vector<at::Tensor> before = weights();
    const std::vector<int64_t> samples{0, 1, 2, 3, 4, 5, 6};
    const StepResult skipped = trainer.step(samples, 0, c.lr, /*loss_scale=*/1e9);
    EXPECT_TRUE(skipped.skipped);
    EXPECT_TRUE(std::isfinite(skipped.loss));
    for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(weights()[i].equal(before[i]));
    EXPECT_FALSE(trainer.step(samples, 0, c.lr, /*loss_scale=*/1024).skipped);
    EXPECT_FALSE(weights()[0].equal(before[0]));
  };
  for_each_world({1, 2, 4}, [&](const Communicator& world) {
    Configuration c = uneven_classifier();
    c.precision = Precision::fp16;
    for (const int64_t pp : {1, 2})
      for (c.zero = 0; c.zero <= 3; ++c.zero) {
        if (world.size() % pp != 0) continue;
        c.pp = pp;
        c.dp = world.size() / pp;
        expect_skipped(c, world);
      }
  });
}

TEST(Trainer, refuses_a_world_that_is_not_dp_times_tp) {
  Configuration c = uneven_classifier();
  c.dp = 2;
  EXPECT_THROW(Learner(c, Communicator()), InvalidArgument);
}

}  // namespace
}  // namespace adjoin::train
