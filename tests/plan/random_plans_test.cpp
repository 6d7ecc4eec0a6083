#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "adjoin/nn/expert_tokens.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "tests/support/programs/random.hpp"
#include "tests/support/programs/trials.hpp"
#include "tests/support/seen_steps.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::plan {

using namespace train;

namespace {

using namespace adjoin::testing;

constexpr double kLeastPeak = 2 << 20;  // bytes: below, what a step makes beside its tensors is too much of it

/// Draws a training from a seed.
Configuration drawn(uint64_t seed) {
  programs::Random random(seed);
  const auto number = [&](const std::vector<int64_t>& of) { return random.one_of(of); };
  const auto name = [&](const std::vector<std::string>& of) { return random.one_of(of); };
  Configuration c = configuration_of(random.chance(50) ? "tiny" : "gpt-tiny");
  c.token_dropout = 0;
  c.sequence = number({16, 33, 64});
  c.heads = number({4, 5});
  c.hidden = c.heads * number({12, 20, 32});
  c.layers = number({2, 3, 6, 12});
  c.vocabulary_size = number({51, 300, 2000});
  c.precision =
      random.one_of(std::vector{Precision::fp32, Precision::bf16, Precision::fp32, Precision::bf16, Precision::fp64});
  c.attention_dropout = random.chance(30) ? 0.1 : 0;
  set("norm", name({"layer", "rms"}), c);
  set("optimizer", name({"adamw", "muon", "sgd"}), c);
  if (c.is_decoder()) {
    c.tied_scores = random.chance(60);
    set("positions", name({"learned", "rotary"}), c);
    set("activation", name({"gelu", "swiglu"}), c);
  }
  for (int64_t left = 1 + static_cast<int64_t>(seed % 4); left > 1;) {
    const int64_t factor = left % 2 == 0 ? 2 : left;
    *random.one_of(std::vector{&c.dp, &c.pp, &c.cp, &c.tp}) *= factor;
    left /= factor;
  }
  if (random.chance(20)) {
    c.experts.count = 4;
    c.ep = c.dp % 2 == 0 && random.chance(60) ? 2 : 1;
  }
  c.sp = c.tp > 1 && random.chance(50);
  // A plan takes it that the other ranks have as many rows for the experts as its own.
  if (c.experts.count > 1) c.sequence -= c.sequence % (2 * c.cp * c.tp);
  c.zero = number({0, 1, 2, 3});
  set("cp_method", name({"ring", "ulysses", "gathered"}), c);
  set("recompute", name({"none", "none", "segment", "attention"}), c);
  c.pipeline = name({"1f1b", "gpipe", "zb-h1", "interleaved"});
  if (c.pipeline == "interleaved") c.chunks = c.layers + 2 >= 2 * c.pp ? 2 : 1;
  c.microbatches = c.pp > 1 ? number({1, 2, 4, 5}) : number({1, 1, 2, 3});
  // Every rank has samples, of uneven numbers where experts need not get equally many rows.
  c.batch = c.dp * c.microbatches * number({1, 2, 4});
  if (c.experts.count == 1) c.batch += number({0, 1, 2});
  return c;
}

/// The options that are not the defaults.
std::string options_of(const Configuration& c) {
  std::string text = text_of("model", c);
  for (const Field& field : fields())
    if (const std::string value = text_of(field, c);
        field.group != "Output" && value != text_of(field, Configuration()))
      text += " " + option_of(field.name) + " " + value;
  return text;
}

/// A task of texts of nearly equal lengths; of equal ones where experts get as many rows of each.
std::unique_ptr<Task> drawn_task(const Configuration& c) {
  return c.experts.count > 1 && c.model == ModelKind::classifier
             ? random_task(c, c.batch, [&](int64_t) { return c.sequence; })
             : task_of(c);
}

/// The same with sums in a fixed order.
Configuration in_order(Configuration c, uint64_t seed) {
  programs::Random random(seed);
  if (c.precision == Precision::fp64) c.precision = Precision::fp32;
  if (c.cp_method == nn::AttentionMethod::gathered) c.cp_method = nn::AttentionMethod::ring;
  int64_t lanes = std::min(c.batch, random.one_of(std::vector<int64_t>{1, 2, 3, 4})),
          leaves = std::min((c.batch + lanes - 1) / lanes, random.one_of(std::vector<int64_t>{1, 2}));
  const int64_t tokens = c.cp * random.one_of(std::vector<int64_t>{1, 2});
  if (c.experts.count > 1) lanes = c.dp, leaves = c.microbatches;  // so that ranks have as many rows
  c.same_bits = "lanes=" + std::to_string(lanes) + ",leaves=" + std::to_string(leaves) +
                ",features=4,tokens=" + std::to_string(tokens);
  return c;
}

void expect_calls_and_memory(const std::function<Configuration(uint64_t seed)>& draw, uint64_t count,
                             double of_memory) {
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    for (const uint64_t seed : programs::seeds(count)) {
      const Configuration c = draw(seed);
      if (grid_sizes(c).ranks() != world.size()) continue;
      const std::string what = "seed " + std::to_string(seed) + ": " + options_of(c);
      const std::unique_ptr<Task> task = drawn_task(c);
      const RankPlan plan = planned(c, *task, world);
      const nn::AssumedExperts assumed(nn::AssumedExperts::Spread::even, /*alone=*/false);
      const Seen seen = seen_in_a_step(c, *task, world);
      EXPECT_EQ(plan.parameters, seen.parameters) << what;
      EXPECT_EQ(text_of(plan.calls), text_of(seen.calls)) << what;
      const auto highest = static_cast<double>(plan.highest), peak = static_cast<double>(seen.peak);
      if (peak >= kLeastPeak) {
        EXPECT_NEAR(highest / peak, 1, of_memory) << what << ": " << peak << " bytes";
      }
    }
  });
}

TEST(RandomPlans, tell_calls_and_within_a_tenth_memory) {
  expect_calls_and_memory(drawn, 16, 0.1);
}

TEST(RandomPlans, tell_calls_and_within_a_fifth_memory_of_sums_in_a_fixed_order) {
  expect_calls_and_memory([](uint64_t seed) { return in_order(drawn(seed), seed); }, 12, 0.2);
}

}  // namespace
}  // namespace adjoin::plan
