#include "adjoin/models/generate.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/pipeline/balanced_stages.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::models {
namespace {

using namespace adjoin::testing;
using ::testing::HasSubstr;
using Tokens = std::vector<int64_t>;

struct WriterOptions {
  int64_t heads = 5, key_heads = 0;
  bool is_rotary = false;
};

/// Embeddings far from each other, so that the next words differ.
TransformerOptions writer_options(const WriterOptions& options) {
  using Positions = TransformerOptions::Positions;
  return {.words = 23,
          .layers = 2,
          .hidden = 20,
          .heads = options.heads,
          .context = 40,
          .key_heads = options.key_heads,
          .positions = options.is_rotary ? Positions::rotary : Positions::learned,
          .rotary = {.base = 100},
          .embedding_deviation = 0.5};
}
Model writer(const WriterOptions& options, const Grid& grid, at::ScalarType type = at::kDouble) {
  Model model(decoder(writer_options(options)), grid, type);
  nn::initialize(*model, 3);
  return model;
}

const WriterOptions kWriters[] = {{5, 5, false}, {10, 5, true}};
const Tokens kPrompt{2, 7, 9, 3, 21};

TEST(Generate, writes_the_same_with_and_without_caches_in_every_layout) {
  for (const WriterOptions& options : kWriters)
    for (const bool draws : {false, true}) {
      GenerateOptions plain{.tokens = 24, .caches = false};
      if (draws) plain.sampling = Sampling{.temperature = 1.5, .top_k = 20, .top_p = 0.95, .seed = 4};
      const Tokens expected = generate(writer(options, one_worker()), writer_options(options), kPrompt, plain);
      ASSERT_EQ(std::ssize(expected), 24);
      GenerateOptions cached = plain;
      cached.caches = true;
      for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
        EXPECT_EQ(generate(writer(options, on_tp(world)), writer_options(options), kPrompt, cached), expected);
      });
    }
}

/// Whose parts of 23 words are no balanced shares of 3 ranks.
TEST(Generate, writes_the_same_in_every_layout_in_a_fixed_order) {
  const auto order = std::make_shared<FixedOrder>();
  order->numbers.features = 4;
  const auto written = [&](const Grid& grid) {
    const WithOrder with_order(order);
    return generate(writer(kWriters[0], grid, at::kFloat), writer_options(kWriters[0]), kPrompt, {.tokens = 24});
  };
  const Tokens expected = written(one_worker());
  for_each_world({2, 3, 4}, [&](const Communicator& world) { EXPECT_EQ(written(on_tp(world)), expected); });
}

/// The segments of one of so many stages: embedding, two blocks and head.
Model stage_of(const WriterOptions& options, const Grid& grid, int stage, int stages) {
  const std::vector<Segment> all = decoder(writer_options(options));
  std::vector<double> costs(all.size(), 1.0);
  const std::vector<int> sizes = pipeline::balanced_stages(costs, stages);
  const auto first = all.begin() + std::accumulate(sizes.begin(), sizes.begin() + stage, 0);
  Model model(std::vector<Segment>(first, first + sizes[static_cast<size_t>(stage)]), grid, at::kDouble);
  nn::initialize(*model, 3);
  return model;
}

TEST(Generate, writes_many_texts_at_once_over_the_stages_of_a_pipeline) {
  const std::vector<Tokens> prompts{{2, 7, 9, 3, 21}, {1}, {4, 4, 4, 4, 4, 4, 4, 4, 4}};
  for (const bool draws : {false, true}) {
    GenerateOptions options{.tokens = 15};
    if (draws) options.sampling = Sampling{.temperature = 2, .seed = 4};
    std::vector<Tokens> expected;
    const Model whole = writer({}, one_worker());
    options.ends = {generate(whole, writer_options({}), prompts[0], options)[6]};  // which ends the first text early
    for (size_t i = 0; i < prompts.size(); ++i) {
      GenerateOptions of_text = options;
      if (draws) of_text.sampling->sequence = static_cast<int64_t>(i);
      expected.push_back(generate(whole, writer_options({}), prompts[i], of_text));
    }
    EXPECT_LT(std::ssize(expected[0]), *options.tokens);
    for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
      for (int tp = 1; tp <= world.size(); ++tp) {
        if (world.size() % tp != 0) continue;
        const Grid grid(world, {{"pp", world.size() / tp}, {"tp", tp}});
        const int pp = grid.coordinate("pp");
        const Model mine = stage_of({}, grid.at("pp", pp), pp, world.size() / tp);
        std::vector<Tokens> given(prompts.size());
        const auto each = [&](size_t text, int64_t token) { given[text].push_back(token); };
        EXPECT_EQ(generate(mine, writer_options({}), prompts, options, each, grid.axis("pp")), expected);
        EXPECT_EQ(given, expected);
      }
    });
  }
}

TEST(Generate, takes_the_likeliest_word_of_all_that_is_before_it) {
  Model model = writer({}, one_worker());
  const Tokens found = generate(model, writer_options({}), kPrompt, {.tokens = 3});
  Tokens text = kPrompt;
  for (const int64_t token : found) {
    const auto length = std::ssize(text);
    const ForwardPass pass{.rows = LocalTokenRows(TokenRows::balanced({length}, 1))};
    const at::Tensor scores = model(at::tensor(text, at::kLong), pass)[length - 1];
    EXPECT_EQ(token, scores.argmax().item<int64_t>());
    text.push_back(token);
  }
}

TEST(Generate, gives_tokens_out_as_they_come_and_stops_before_the_end) {
  const Model model = writer({}, one_worker());
  GenerateOptions options{.tokens = 20, .sampling = Sampling{.temperature = 2}};
  const Tokens all = generate(model, writer_options({}), kPrompt, options);
  options.ends = {all[7]};
  const auto first = std::find(all.begin(), all.end(), all[7]);
  Tokens given;
  const Tokens found =
      generate(model, writer_options({}), kPrompt, options, [&](int64_t token) { given.push_back(token); });
  EXPECT_EQ(found, Tokens(all.begin(), first));
  EXPECT_EQ(given, found);
}

TEST(Generate, draws_other_texts_for_other_seeds_and_sequences) {
  const Model model = writer({}, one_worker());
  const auto draw = [&](uint64_t seed, int64_t sequence) {
    return generate(model, writer_options({}), kPrompt,
                    {.tokens = 10, .sampling = Sampling{.temperature = 2, .seed = seed, .sequence = sequence}});
  };
  EXPECT_EQ(draw(1, 0), draw(1, 0));
  EXPECT_NE(draw(1, 0), draw(2, 0));
  EXPECT_NE(draw(1, 0), draw(1, 1));
}

TEST(Generate, fills_the_context_to_the_last_token) {
  EXPECT_EQ(generate(writer({}, one_worker()), writer_options({}), kPrompt, {.tokens = 35}).size(), 35u);
  const std::vector<Tokens> prompts{kPrompt, {kPrompt.front()}};  // without a word of how many, each as many as alone
  const std::vector<Tokens> written = generate(writer({}, one_worker()), writer_options({}), prompts, {});
  EXPECT_EQ(written[0].size(), 35u);
  EXPECT_EQ(written[1].size(), 39u);
}

TEST(Generate, refuses_what_it_cannot_write_on) {
  const Model model = writer({}, one_worker());
  const auto refusal = [&](const Tokens& prompt, const GenerateOptions& options) -> std::string {
    try {
      generate(model, writer_options({}), prompt, options);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({}, {}), HasSubstr("got an empty one"));
  EXPECT_THAT(refusal({3, 23}, {.tokens = 1}), HasSubstr("tokens from 0 to 22 in the prompt, got 23"));
  EXPECT_THAT(refusal({-1}, {.tokens = 1}), HasSubstr("got -1"));
  EXPECT_THAT(refusal(kPrompt, {.tokens = 0}), HasSubstr("at least 1 token to write, got 0"));
  EXPECT_THAT(refusal(kPrompt, {.tokens = 36}), HasSubstr("at most 40 together, the context, got 5 and 36"));
  EXPECT_THAT(refusal(kPrompt, {.tokens = 1, .sampling = Sampling{.top_k = 0}}),
              HasSubstr("a top-k of at least 1 word, got 0"));
}

}  // namespace
}  // namespace adjoin::models
