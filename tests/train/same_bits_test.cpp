#include "adjoin/task/same_bits.hpp"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/processes.hpp"
#include "adjoin/data/sampler.hpp"
#include "adjoin/hugging_face/family.hpp"
#include "adjoin/nn/sequence/kept_promises.hpp"
#include "adjoin/store/state_parts.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/train/lanes.hpp"
#include "adjoin/train/tasks.hpp"
#include "adjoin/train/trainer.hpp"
#include "tests/support/configurations.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/random_task.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::train {
namespace {

using namespace adjoin::testing;

// Before anything in this program uses MKL.
const bool has_asked = (nn::fixed::ask_for_one_order(), true);

constexpr int64_t kStepsInOrder = 4;

Configuration odd_sizes(bool is_decoder, int64_t tokens = 1) {
  Configuration c = uneven(is_decoder ? "decoder" : "classifier");
  c.layers = 2;
  c.hidden = 40;
  c.batch = 9;
  c.clip = 0.5;
  c.same_bits = "lanes=5,leaves=2,features=4";  // 5: the fewest whose tree is no chain
  if (tokens > 1) c.same_bits += ",tokens=" + std::to_string(tokens);
  return c;
}

/// Each step's loss and norm, an evaluation's loss, and the hash of weights and moments at the end.
struct Result {
  std::vector<double> numbers;
  std::string hash;
  bool operator==(const Result&) const = default;
};

Result trained_in_order(const Configuration& c, const Communicator& world) {
  const std::unique_ptr<Task> task = random_task(c, 31, [](int64_t i) { return 1 + i * 5 % 22; });
  Trainer trainer(c, *task, world);
  trainer.initialize();
  data::Sampler sampler({.samples = task->size(data::Part::train), .batch = c.batch, .seed = 1});
  Result result;
  for (int64_t step = 0; step < kStepsInOrder; ++step) {
    const StepResult of_step = trainer.step(sampler.next(), step, c.lr);
    result.numbers.insert(result.numbers.end(), {of_step.loss, of_step.gradient_norm});
  }
  result.numbers.push_back(trainer.evaluate(data::Part::test, /*batch_samples=*/3).loss);
  result.hash = hash_of_state({{"weights", trainer.parameters()}, {"moments", trainer.optimizer().moments()}}, world);
  return result;
}

Configuration drawn_in_order(Configuration c, int ranks, std::mt19937& random) {
  const auto one_of = [&](auto values) { return values[random() % values.size()]; };
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= std::min(ranks, 4); ++d)  // as many parts of features, and segments
    if (ranks % d == 0) divisors.push_back(d);
  const int64_t blocks = same_bits(c)->tokens;
  c.cp = blocks == 1 ? 1 : one_of(divisors);
  if (c.cp > blocks) c.cp = 1;
  c.cp_method = random() % 2 == 0 ? nn::AttentionMethod::ring : nn::AttentionMethod::ulysses;
  std::erase_if(divisors, [&](int64_t d) { return ranks / c.cp % d != 0; });
  c.tp = one_of(divisors);
  std::erase_if(divisors, [&](int64_t d) { return ranks / c.cp / c.tp % d != 0; });
  c.pp = one_of(divisors);
  c.dp = ranks / (c.cp * c.tp * c.pp);
  std::erase_if(divisors, [&](int64_t d) { return c.dp % d != 0 || d > c.experts.count; });
  c.ep = one_of(divisors);
  c.pipeline = one_of(std::vector<std::string>{"gpipe", "1f1b", "zb-h1"});
  set("recompute", one_of(std::vector<std::string>{"none", "segment"}), c);
  c.microbatches = one_of(std::vector<int64_t>{1, 2, 3});
  c.zero = one_of(std::vector<int64_t>{0, 1, 2, 3});
  c.sp = c.tp > 1 && random() % 2 == 0;
  return c;
}

void expect_one_hash(Configuration one, unsigned seed, int64_t draws = 2) {
  const int threads = at::get_num_threads();
  const Result expected = trained_in_order(one, Communicator());
  at::set_num_threads(3);
  EXPECT_EQ(trained_in_order(one, Communicator()), expected) << "on 3 threads";
  at::set_num_threads(threads);
  std::vector<int> worlds{1, 2, 3, 4};
  if (test::scale() > 1) worlds.insert(worlds.end(), {6, 8});
  for_each_world(worlds, [&](const Communicator& world) {
    std::mt19937 random(10 * seed + static_cast<unsigned>(world.size()));
    for (int64_t i = 0; i < draws * test::scale(); ++i) {
      const Configuration c = drawn_in_order(one, world.size(), random);
      EXPECT_EQ(trained_in_order(c, world), expected)
          << text_of("model", c) << " in " << text_of("precision", c) << " on " << grid_sizes(c).to_string()
          << ", cp by " << text_of("cp_method", c) << ", micro-batches " << c.microbatches << ", " << c.pipeline
          << ", zero " << c.zero << ", recomputes " << text_of("recompute", c);
    }
  });
}

TEST(SameBits, has_a_classifier_in_every_layout) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    Configuration c = odd_sizes(/*is_decoder=*/false, /*tokens=*/precision == Precision::fp32 ? 5 : 1);
    c.precision = precision;
    set("pooling", precision == Precision::fp32 ? "mean" : "cls", c);  // bf16 would hide a sum's last bits
    c.attention_dropout = precision == Precision::fp32 ? 0.2 : 0;
    expect_one_hash(c, 0 + (precision == Precision::fp32 ? 0 : 1), /*draws=*/precision == Precision::fp32 ? 1 : 2);
  }
}

TEST(SameBits, has_a_decoder_in_every_layout) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    Configuration c = odd_sizes(/*is_decoder=*/true, /*tokens=*/precision == Precision::fp32 ? 4 : 1);
    c.precision = precision;
    if (precision == Precision::bf16) set("activation", "swiglu", c);
    set("norm", precision == Precision::fp32 ? "layer" : "rms", c);
    expect_one_hash(c, 2 + (precision == Precision::fp32 ? 0 : 1));
  }
}

TEST(SameBits, has_experts_in_every_layout) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    Configuration c = odd_sizes(/*is_decoder=*/precision == Precision::fp32, precision == Precision::fp32 ? 1 : 3);
    c.precision = precision;
    c.experts.count = 4;
    c.experts.top_k = precision == Precision::fp32 ? 3 : 1;
    c.experts.balance_loss = 0.02;
    c.experts.z_loss = 0.01;
    c.optimizer = OptimizerRule::muon;
    expect_one_hash(c, 4 + (precision == Precision::fp32 ? 0 : 1));
  }
}

/// Of embeddings as large as these rows move, where they are not the decoder's output too.
TEST(SameBits, has_models_of_hugging_faces_kinds_in_every_layout) {
  for (const char* kind : {"bert", "gpt2", "llama"}) {
    const nlohmann::ordered_json config{{"model_type", kind}};
    Configuration c = odd_sizes(/*is_decoder=*/kind != std::string_view("bert"));
    read_model(family_of(config), config, c);
    c.layers = 2;
    c.hidden = 48;
    c.heads = 8;
    c.key_heads = kind == std::string_view("llama") ? 4 : 0;
    c.inner = c.context = 0;
    c.words = 5000;
    c.vocabulary_size = 4500;
    c.same_bits = "lanes=5,leaves=2,features=4";
    expect_one_hash(c, 6 + static_cast<unsigned>(kind[0]), /*draws=*/1);
  }
}

/// Layouts that few draws are: experts that get rows of two ranks and are on two more, a table that two stages of two ranks each use
/// in two ways, and one whose rows move. Of three leaves of a lane two are in one micro-batch.
TEST(SameBits, has_the_lanes_of_other_ranks_and_stages) {
  Configuration experts = odd_sizes(/*is_decoder=*/true, /*tokens=*/2), tied = odd_sizes(/*is_decoder=*/true);
  experts.experts.count = 2;
  tied.same_bits = "lanes=3,leaves=3,features=4";
  Configuration table = tied;
  table.tied_scores = false;
  table.words = 5000;
  const Result of_experts = trained_in_order(experts, Communicator()), of_tied = trained_in_order(tied, Communicator()),
               of_table = trained_in_order(table, Communicator());
  for_each_world({4}, [&, experts, tied, table](const Communicator& world) mutable {
    const int64_t halves = world.size() % 2 == 0 ? 2 : 1;
    experts.zero = tied.zero = 2, table.zero = 3;
    experts.microbatches = 3, tied.microbatches = table.microbatches = 2;
    experts.dp = table.dp = world.size(), experts.ep = halves;
    tied.dp = world.size() / halves, tied.pp = halves;
    EXPECT_EQ(trained_in_order(experts, world), of_experts);
    EXPECT_EQ(trained_in_order(tied, world), of_tied);
    EXPECT_EQ(trained_in_order(table, world), of_table);
  });
}

TEST(SameBits, are_refused_where_kernels_differ) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const std::vector<nn::fixed::KeptPromise> alike{{"gelu of float32", 1, 0, 7}, {"softmax of float32", 1, 0, 8}};
    EXPECT_NO_THROW(check_kernels(alike, world));
    const int last = world.size() - 1;
    const std::string there = "rank " + std::to_string(last) + " on " + host_name();
    auto other = alike, broken = alike;
    if (world.rank() == last) ++other[1].first_result, ++broken[0].broken;
    EXPECT_EQ(thrown_by<Error>([&] { check_kernels(broken, world); }),
              "--same-bits: gelu of float32 change with what is computed beside them on " + there +
                  "; adjoin doctor --same-bits says more");
    if (world.size() == 1) return;
    EXPECT_EQ(thrown_by<Error>([&] { check_kernels(other, world); }),
              "--same-bits: softmax of float32 give other bits on " + there + " than on rank 0 on " + host_name() +
                  "; expected one type of processor and one LibTorch");
  });
}

TEST(SameBits, depend_on_each_of_their_numbers) {
  Configuration c = odd_sizes(/*is_decoder=*/false);
  const Result expected = trained_in_order(c, Communicator());
  for (const char* other : {"lanes=2,leaves=2,features=4", "lanes=5,leaves=1,features=4", "lanes=5,leaves=2,features=1",
                            "lanes=5,leaves=2,features=4,tokens=2"}) {
    c.same_bits = other;
    const Result found = trained_in_order(c, Communicator());
    EXPECT_NE(found.hash, expected.hash) << other;
    EXPECT_NEAR(found.numbers[0], expected.numbers[0], 1e-3) << other;
  }
}

TEST(SameBits, take_numbers_from_batch_and_model) {
  Configuration c = odd_sizes(/*is_decoder=*/true);
  c.same_bits = "on";
  EXPECT_EQ(same_bits(c), (SameBits{.lanes = 2, .leaves = 1, .features = 2}));
  c.batch = 64, c.sequence = 128;
  EXPECT_EQ(same_bits(c), (SameBits{.lanes = 4, .leaves = 4, .features = 2}));
  c.same_bits = "leaves=2";
  EXPECT_EQ(same_bits(c), (SameBits{.lanes = 4, .leaves = 2, .features = 2}));
  c.same_bits = "off";
  EXPECT_EQ(same_bits(c), std::nullopt);
}

TEST(SameBits, say_what_they_make_of_a_layout) {
  Configuration c = odd_sizes(/*is_decoder=*/true, /*tokens=*/4);
  EXPECT_EQ(same_bits_text(c), "sums of lanes=5,leaves=2,features=4,tokens=4");
  c.dp = 3, c.tp = 3;  // 2 of 5 lanes, 2 of 4 parts
  EXPECT_EQ(same_bits_text(c),
            "sums of lanes=5,leaves=2,features=4,tokens=4; the busiest rank has 1.80 of an even share");
  c.dp = 7, c.tp = 2, c.cp = 2;
  EXPECT_EQ(
      same_bits_text(c),
      "sums of lanes=5,leaves=2,features=4,tokens=4; the busiest rank has 1.40 of an even share, 8 ranks nothing");
  c.same_bits = "off";
  EXPECT_EQ(same_bits_text(c), "");
}

TEST(SameBits, refuse_what_they_do_not_go_with) {
  const auto refusal_of = [](const char* field, const char* value, const char* numbers = "on",
                             bool is_decoder = false) {
    Configuration c = odd_sizes(is_decoder);
    c.same_bits = numbers;
    set(field, value, c);
    try {
      check_same_bits(c);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal_of("seed", "3"), "");
  for (const auto& [field, value] : std::vector<std::pair<const char*, const char*>>{
           {"precision", "fp64"}, {"precision", "fp16"}, {"halves", "true"}, {"pipeline", "own.csv"}})
    EXPECT_TRUE(refusal_of(field, value).starts_with("--same-bits with --"))
        << field << ": " << refusal_of(field, value);
  EXPECT_EQ(refusal_of("cp", "3", "tokens=2"),
            "--cp 3: --same-bits tokens=2 is for at most 2 ranks; a training with tokens=3 or more allows it");
  EXPECT_EQ(refusal_of("cp", "2"),
            "--cp 2: --same-bits tokens=1 is for at most 1 rank; a training with tokens=2 or more allows it");
  EXPECT_EQ(refusal_of("tp", "3"),
            "--tp 3: --same-bits features=2 is for at most 2 ranks; a training with features=3 or more allows it");
  EXPECT_EQ(refusal_of("tp", "6"), "--tp 6: with --same-bits expected at most 5, the heads of attention");
  EXPECT_EQ(refusal_of("cp", "2", "tokens=2"), "");
  EXPECT_EQ(refusal_of("cp", "3", "tokens=3"), "");
  EXPECT_EQ(refusal_of("cp", "3", "tokens=2", /*is_decoder=*/true),
            "--cp 3: --same-bits tokens=2 is for at most 2 ranks; a training with tokens=4 or more allows it");
  EXPECT_EQ(refusal_of("cp", "2", "tokens=3", /*is_decoder=*/true),
            "--same-bits with tokens=3 and --cp 2: a decoder's ranks hold blocks in pairs (zig-zag), expected an even "
            "number of blocks");
  EXPECT_EQ(refusal_of("cp", "1", "tokens=3", /*is_decoder=*/true), "");
  EXPECT_EQ(refusal_of("seed", "1", "lanes=10"), "--same-bits lanes=10: expected at most 9, the samples of --batch");
  EXPECT_EQ(refusal_of("seed", "1", "lanes=99999999999999999999"),
            "--same-bits lanes=9223372036854775807: expected at most 9, the samples of --batch");
  EXPECT_EQ(refusal_of("seed", "1", "features=6"),
            "--same-bits features=6: expected at most 5, the heads of attention");
  EXPECT_EQ(refusal_of("seed", "1", "true"),
            "--same-bits true: expected off, on, or some of lanes=N,leaves=N,features=N,tokens=N");
  EXPECT_EQ(refusal_of("seed", "1", "lanes=2,lanes=3"), "--same-bits lanes=2,lanes=3: gives lanes twice");
  for (const char* wrong : {"lanes=0", "lanes=-1", "lanes=", "lanes", "lanes=2x", "lane=2", "", "leaves=9", "tokens=23",
                            "lanes=2,", "lanes=2, leaves=2", ",", "lanes:2"})
    EXPECT_NE(refusal_of("seed", "1", wrong), "") << wrong;
}

TEST(SameBits, of_a_run_stay_where_they_are_not_given_anew) {
  EXPECT_EQ(resumed_same_bits("lanes=4,leaves=1,features=2", "on"), "features=2,lanes=4,leaves=1");
  EXPECT_EQ(resumed_same_bits("lanes=4,leaves=1,features=2", "tokens=2,leaves=3"),
            "features=2,lanes=4,leaves=3,tokens=2");
  EXPECT_EQ(resumed_same_bits("off", "lanes=2"), "lanes=2");
  EXPECT_EQ(resumed_same_bits("lanes=4", "off"), "off");
}

TEST(SameBits, go_with_our_own_tasks_whoever_makes_them) {
  Configuration c = configuration_of("tiny");
  c.data = "sample";
  c.same_bits = "on";
  EXPECT_NO_THROW(make_task(c, task_kind(c).make));  // as plans do
}

}  // namespace
}  // namespace adjoin::train
