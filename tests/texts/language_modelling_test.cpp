#include "adjoin/texts/language_modelling.hpp"

#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/data/sampler.hpp"
#include "adjoin/data/token_store.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/train/trainer.hpp"
#include "tests/support/configurations.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::train {
namespace {

using namespace adjoin::testing;
using test::message_of;
using ::testing::HasSubstr;

/// Documents of 1 to 40 letters.
data::DocumentTokens letters(int64_t documents) {
  const auto vocabulary = data::byte_vocabulary();
  data::DocumentCounts counts{.documents = documents};
  std::vector<int64_t> ids;
  for (int64_t document = 0; document < documents; ++document) {
    const int64_t length = 1 + document * 17 % 40;
    for (int64_t i = 0; i < length; ++i) ids.push_back('a' + (document + i) % 7);
    ids.push_back(vocabulary->end_of_document());
    counts.bytes += length;
  }
  counts.tokens = std::ssize(ids);
  data::TokenStoreBuilder builder(vocabulary->size());
  builder.add(ids, /*label=*/0);
  return {.name = "letters",
          .tokens = builder.finish(),
          .counts = counts,
          .words = vocabulary->size(),
          .end_of_document = vocabulary->end_of_document()};
}

LanguageInput input() {
  return {data::byte_vocabulary(), letters(60), letters(5)};
}

Configuration uneven_decoder() {
  Configuration c = uneven("decoder");
  c.precision = Precision::fp64;
  c.layers = 1;
  c.sequence = 24;
  c.seed = 3;
  return c;
}

std::vector<double> losses_of(const Configuration& c, const Communicator& world) {
  const LanguageModelling task(c, input());
  Trainer trainer(c, task, world);
  trainer.initialize();
  data::Sampler sampler({.samples = task.size(data::Part::train), .batch = c.batch, .seed = 1});
  std::vector<double> losses;
  for (int64_t step = 0; step < 12; ++step) losses.push_back(trainer.step(sampler.next(), step, 3e-3).loss);
  losses.push_back(trainer.evaluate(data::Part::test, /*batch_samples=*/2).loss);
  return losses;
}

TEST(LanguageModelling, trains_the_same_model_in_every_layout) {
  for (const char* positions : {"rotary", "learned"}) {
    Configuration one = uneven_decoder();
    set("positions", positions, one);
    const std::vector<double> expected = losses_of(one, Communicator());
    EXPECT_LT(expected[11], expected[0]) << "nothing was learned, so agreement would mean little";
    for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
      for (int tp = 1; tp <= world.size(); ++tp) {
        if (world.size() % tp != 0) continue;
        Configuration c = one;
        c.dp = world.size() / tp;
        c.tp = tp;
        c.microbatches = world.size() == 1 ? 3 : 1 + c.dp % 3;
        const std::vector<double> found = losses_of(c, world);
        for (size_t step = 0; step < expected.size(); ++step)
          ASSERT_NEAR(found[step], expected[step], 1e-9 * expected[step])
              << positions << " dp " << c.dp << " tp " << tp << " step " << step;
      }
    });
  }
}

// Once to count what lies before each micro-batch, by whichever rank comes first, and once by the rank whose part it is in.
TEST(LanguageModelling, reads_each_sequence_of_a_batch_twice_however_many_micro_batches_there_are) {
  for (const int64_t microbatches : {1, 4}) {
    Configuration c = uneven_decoder();
    c.microbatches = microbatches;
    c.dp = 2;
    const LanguageModelling task(c, input());
    const std::vector<int64_t> samples{0, 1, 2, 3, 4, 5, 6};
    launch_threads(2, [&](const Communicator& world) {
      Trainer trainer(c, task, world);
      trainer.initialize();
      trainer.step(samples, 0, 1e-3);
    });
    EXPECT_EQ(task.sequences_read(), 2 * std::ssize(samples)) << microbatches;
  }
}

TEST(LanguageModelling, measures_what_a_model_that_knows_nothing_needs) {
  const Configuration c = uneven_decoder();
  for_each_world({1, 2}, [&](const Communicator& world) {
    Configuration parallel = c;
    parallel.tp = world.size();
    const LanguageModelling task(parallel, input());
    Trainer trainer(parallel, task, world);
    const at::NoGradGuard no_gradient;
    for (const nn::Parameter& parameter : nn::parameters_of(trainer.module())) parameter.tensor.zero_();
    const Evaluation found = trainer.evaluate(data::Part::test);
    const double words = 257;
    EXPECT_NEAR(found.loss, std::log(words), 1e-12);
    ASSERT_EQ(found.measures.size(), 2u);
    EXPECT_EQ(found.measures[0].name, "perplexity");
    EXPECT_NEAR(found.measures[0].value, words, 1e-9);
    // Of n bytes in 5 documents n are predicted but for the first of each, and 5 ends are; sequences cut them nowhere else.
    const data::DocumentCounts counts = letters(5).counts;
    const auto predicted = static_cast<double>(counts.tokens - 5), bytes = static_cast<double>(counts.bytes - 5);
    EXPECT_EQ(found.measures[1].name, "bits_per_byte");
    EXPECT_NEAR(found.measures[1].value, std::log2(words) * predicted / bytes, 1e-9);
  });
}

TEST(LanguageModelling, scores_a_text_that_is_longer_than_the_context_as_an_evaluation_does) {
  const Configuration c = uneven_decoder();
  ASSERT_EQ(c.sequence, 24);
  const auto vocabulary = data::byte_vocabulary();
  for (const int64_t bytes : {2, 23, 24, 25, 48, 61}) {
    std::string text;
    for (int64_t i = 0; i < bytes; ++i) text += static_cast<char>('a' + i * i % 7);
    std::vector<int64_t> ids = vocabulary->encode(text);
    ids.push_back(vocabulary->end_of_document());
    data::TokenStoreBuilder builder(vocabulary->size());
    builder.add(ids, /*label=*/0);
    const data::DocumentTokens document{.name = "text",
                                        .tokens = builder.finish(),
                                        .counts = {.documents = 1, .bytes = bytes, .tokens = bytes + 1},
                                        .words = vocabulary->size(),
                                        .end_of_document = vocabulary->end_of_document()};
    LanguageModelling task(c, {vocabulary, letters(60), document});
    Trainer trainer(c, task, Communicator());
    trainer.initialize();
    const double expected = trainer.evaluate(data::Part::test).measures.at(1).value;
    task.take_texts(std::vector<std::string>{"abc", text, text + "a"});
    const std::vector<int64_t> all{0, 1, 2};
    const MicroBatch batch = task.micro_batch(data::Part::test, all, {0, 3}, {});
    const at::Tensor scores = trainer.output(batch);
    const std::vector<Prediction> found = task.predictions(scores, batch, trainer.grid());
    ASSERT_EQ(found.size(), 3u);
    EXPECT_NEAR(found[1].value, expected, 1e-12) << bytes << " bytes";

    // The same rows block by block, as where a sum's order has blocks of tokens.
    const TokenRows rows =
        TokenRows::in_blocks(batch.pass.rows.all().lengths(), TokenBlocks::of(3, 1, /*causal=*/true));
    MicroBatch in_blocks = batch;
    in_blocks.target = take_block(batch.target, rows.split(), 0);
    in_blocks.pass.rows = LocalTokenRows(rows);
    const auto again = task.predictions(take_block(scores, rows.split(), 0), in_blocks, trainer.grid());
    ASSERT_EQ(again.size(), 3u);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(again[i].value, found[i].value) << bytes << " bytes, text " << i;
  }
}

TEST(LanguageModelling, refuses_a_text_of_which_nothing_can_be_scored) {
  LanguageModelling task(uneven_decoder(), input());
  const auto take = [&](const char* text) { task.take_texts(std::vector<std::string>{text}); };
  EXPECT_THAT(message_of<InvalidArgument>([&] { take(""); }), HasSubstr("is empty"));
  EXPECT_THAT(message_of<InvalidArgument>([&] { take("a"); }), HasSubstr("is a single token"));
  take("ab");
}

}  // namespace
}  // namespace adjoin::train
