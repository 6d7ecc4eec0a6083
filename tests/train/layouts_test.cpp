#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/base/text.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/data/sampler.hpp"
#include "adjoin/hugging_face/family.hpp"
#include "adjoin/task/grid_sizes.hpp"
#include "adjoin/train/trainer.hpp"
#include "tests/support/configurations.hpp"
#include "tests/support/pytorch_schedules.hpp"
#include "tests/support/random_task.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::train {
namespace {

using namespace adjoin::testing;

constexpr int64_t kLayoutSteps = 8;

/// Three layers, and every option that has a mask.
Configuration odd_sizes(const std::string& model) {
  Configuration c = uneven(model);
  c.precision = Precision::fp64;
  c.layers = 3;
  c.token_dropout = 0.1;
  return c;
}

/// A model as transformers has it, of such sizes, with more rows in its embedding than there are pieces.
Configuration odd_sizes_of(const nlohmann::ordered_json& config) {
  const Family& family = family_of(config);
  Configuration c = odd_sizes(family.model == ModelKind::decoder ? "decoder" : "classifier");
  read_model(family, config, c);
  c.layers = 3;
  c.hidden = 40;
  c.heads = family.is_rotary ? 10 : 5;
  if (family.is_rotary) c.key_heads = 5;
  c.inner = 37;
  c.context = 25;
  c.words = family.model == ModelKind::decoder ? 301 : 59;
  c.attention_dropout = 0.1;
  return c;
}

/// Texts of 1 to 22 tokens, so that some ranks have none of some; documents likewise, which share sequences.
std::unique_ptr<Task> uneven_task(const Configuration& c) {
  return random_task(c, 31, [](int64_t i) { return 1 + i * 5 % 22; });
}

/// Of each step, and of an evaluation.
std::vector<double> losses_in(const Configuration& c, const Communicator& world, int64_t steps = kLayoutSteps) {
  const std::unique_ptr<Task> task = uneven_task(c);
  Trainer trainer(c, *task, world);
  trainer.initialize();
  data::Sampler sampler({.samples = task->size(data::Part::train), .batch = c.batch, .seed = 1});
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step) losses.push_back(trainer.step(sampler.next(), step, c.lr).loss);
  losses.push_back(trainer.evaluate(data::Part::test, /*batch_samples=*/3).loss);
  return losses;
}

/// One of all layouts of so many ranks, by chance.
Configuration drawn(Configuration c, int ranks, std::mt19937& random) {
  const auto one_of = [&](auto values) { return values[random() % values.size()]; };
  std::vector<int64_t> divisors;
  for (int64_t d = 1; d <= ranks; ++d)
    if (ranks % d == 0) divisors.push_back(d);
  c.tp = one_of(divisors);
  std::erase_if(divisors, [&](int64_t d) { return ranks / c.tp % d != 0; });
  c.cp = one_of(divisors);
  std::erase_if(divisors, [&](int64_t d) { return ranks / c.tp / c.cp % d != 0; });
  c.pp = one_of(divisors);
  c.dp = ranks / (c.tp * c.cp * c.pp);
  std::erase_if(divisors, [&](int64_t d) { return c.dp % d != 0 || c.experts.count % d != 0; });
  c.ep = one_of(divisors);
  c.pipeline = one_of(std::vector<std::string>{"gpipe", "1f1b", "interleaved", "zb-h1"});
  if (c.pipeline == "interleaved" && c.pp <= 2) c.chunks = 2;  // of five segments
  c.sp = c.tp > 1 && random() % 2 == 0;
  set("cp_method", one_of(std::vector<std::string>{"ring", "ulysses", "gathered"}), c);
  set("recompute", one_of(std::vector<std::string>{"none", "attention", "segment"}), c);
  c.microbatches = one_of(std::vector<int64_t>{1, 2, 3});
  c.zero = one_of(std::vector<int64_t>{0, 1, 2, 3});
  return c;
}

TEST(Layouts, train_the_same_model_whatever_lies_where) {
  for (const char* model : {"classifier", "decoder"})
    for (const char* variant : {"first", "second"}) {
      Configuration one = odd_sizes(model);
      const bool is_first = std::string(variant) == "first";
      if (one.is_decoder()) {
        set("positions", is_first ? "rotary" : "learned", one);
        set("activation", is_first ? "swiglu" : "gelu", one);
        one.hidden = 40;  // heads of an even size
      } else {
        set("pooling", is_first ? "cls" : "mean", one);
      }
      const std::vector<double> expected = losses_in(one, Communicator());
      EXPECT_LT(expected[kLayoutSteps - 1], expected[0]) << "nothing was learned, so agreement would mean little";
      for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
        std::mt19937 random(static_cast<unsigned>(world.size()));
        for (int i = 0; i < 5; ++i) {
          const Configuration c = drawn(one, world.size(), random);
          const std::vector<double> found = losses_in(c, world);
          for (size_t step = 0; step < expected.size(); ++step)
            ASSERT_NEAR(found[step], expected[step], 1e-9 * expected[step])
                << model << " " << variant << " on " << grid_sizes(c).to_string() << " by " << text_of("cp_method", c)
                << ", recomputes " << text_of("recompute", c) << ", micro-batches " << c.microbatches << ", "
                << c.pipeline << " of chunks " << c.chunks << ", zero " << c.zero << ", step " << step;
        }
      });
    }
}

TEST(Layouts, train_the_same_large_tables_whatever_lies_where) {
  for (const char* model : {"classifier", "decoder"}) {
    Configuration one = odd_sizes(model);
    one.tied_scores = false;
    one.words = 4999;
    constexpr int64_t kSteps = 5;
    const std::vector<double> expected = losses_in(one, Communicator(), kSteps);
    for_each_world({2, 3, 4}, [&](const Communicator& world) {
      std::mt19937 random(static_cast<unsigned>(20 * world.size()));
      for (int i = 0; i < 4; ++i) {
        Configuration c = drawn(one, world.size(), random);
        c.zero = i;
        const std::vector<double> found = losses_in(c, world, kSteps);
        for (size_t step = 0; step < expected.size(); ++step)
          ASSERT_NEAR(found[step], expected[step], 1e-9 * expected[step])
              << model << " on " << grid_sizes(c).to_string() << ", micro-batches " << c.microbatches << ", zero "
              << c.zero << ", step " << step;
      }
    });
  }
}

TEST(Layouts, train_the_same_experts_whatever_lies_where) {
  for (const char* model : {"classifier", "decoder"}) {
    Configuration one = odd_sizes(model);
    one.hidden = 10;
    one.layers = 2;
    one.batch = 5;
    one.experts.count = model == std::string("decoder") ? 4 : 6;
    one.experts.top_k = model == std::string("decoder") ? 1 : 2;
    one.experts.normalises_gates = model != std::string("decoder");
    one.experts.every = model == std::string("decoder") ? 1 : 2;
    one.activation = model == std::string("decoder") ? nn::Activation::swiglu : nn::Activation::gelu;
    constexpr int64_t kSteps = 20;
    const std::vector<double> expected = losses_in(one, Communicator(), kSteps);
    EXPECT_LT(expected[kSteps - 1], expected[0]) << "nothing was learned, so agreement would mean little";
    for_each_world({2, 3, 4}, [&](const Communicator& world) {
      std::mt19937 random(static_cast<unsigned>(10 * world.size()));
      for (int i = 0; i < (world.size() == 4 ? 4 : 3); ++i) {
        const Configuration c = drawn(one, world.size(), random);
        const std::vector<double> found = losses_in(c, world, kSteps);
        for (size_t step = 0; step < expected.size(); ++step)
          ASSERT_NEAR(found[step], expected[step], 1e-9 * expected[step])
              << model << " on " << grid_sizes(c).to_string() << " by " << text_of("cp_method", c) << ", recomputes "
              << text_of("recompute", c) << ", micro-batches " << c.microbatches << ", " << c.pipeline << ", zero "
              << c.zero << ", step " << step;
      }
    });
  }
}

TEST(Layouts, train_the_same_model_by_muon_whatever_lies_where) {
  const std::map<std::string, std::vector<std::string>> layouts{
      {"classifier", {"dp 2 ep 2 zero 2", "tp 3", "pp 2 dp 2 ep 2 zero 3"}},  // with experts
      {"decoder", {"cp 2 pp 2", "dp 2 tp 2 sp true"}}};
  for (const auto& [model, of_model] : layouts) {
    Configuration one = odd_sizes(model);
    one.optimizer = OptimizerRule::muon;
    one.layers = 2;
    one.batch = 5;
    one.hidden = one.is_decoder() ? 20 : 10;
    one.activation = one.is_decoder() ? nn::Activation::swiglu : nn::Activation::gelu;
    if (!one.is_decoder()) one.experts = {.count = 4, .every = 2};
    constexpr int64_t kSteps = 50;
    const std::vector<double> expected = losses_in(one, Communicator(), kSteps);
    EXPECT_LT(expected[kSteps - 1], expected[0]) << "nothing was learned, so agreement would mean little";
    for (const std::string& layout : of_model) {
      Configuration c = one;
      const std::vector<std::string_view> words = parts_of(layout, ' ');
      for (size_t i = 0; i < words.size(); i += 2) set(words[i], words[i + 1], c);
      const auto ranks = static_cast<int>(grid_sizes(c).ranks());
      for_each_world({ranks}, [&](const Communicator& world) {
        if (world.size() != ranks) return;
        const std::vector<double> found = losses_in(c, world, kSteps);
        for (size_t step = 0; step < expected.size(); ++step)
          ASSERT_NEAR(found[step], expected[step], 1e-9 * expected[step])
              << model << " " << layout << ", step " << step;
      });
    }
  }
}

TEST(Layouts, train_the_same_models_of_transformers_whatever_lies_where) {
  for (const char* config : {R"({"model_type": "bert"})", R"({"model_type": "gpt2"})",
                             R"({"model_type": "llama", "head_dim": 6, "attention_bias": true, "mlp_bias": true})"}) {
    const Configuration one = odd_sizes_of(nlohmann::ordered_json::parse(config));
    const std::vector<double> expected = losses_in(one, Communicator());
    EXPECT_LT(expected[kLayoutSteps - 1], expected[0]) << "nothing was learned, so agreement would mean little";
    for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
      std::mt19937 random(static_cast<unsigned>(100 * world.size()));
      for (int i = 0; i < 3; ++i) {
        const Configuration c = drawn(one, world.size(), random);
        const std::vector<double> found = losses_in(c, world);
        for (size_t step = 0; step < expected.size(); ++step)
          ASSERT_NEAR(found[step], expected[step], 1e-9 * expected[step])
              << config << " on " << grid_sizes(c).to_string() << " by " << text_of("cp_method", c) << ", recomputes "
              << text_of("recompute", c) << ", micro-batches " << c.microbatches << ", " << c.pipeline << ", zero "
              << c.zero << ", step " << step;
      }
    });
  }
}

TEST(Layouts, of_eight_ranks_train_the_same_model_too) {
  for (const char* model : {"classifier", "decoder"}) {
    Configuration one = odd_sizes(model);
    one.hidden = 40;
    const std::vector<double> expected = losses_in(one, Communicator());
    std::mt19937 random(8);
    for (int i = 0; i < 5; ++i) {
      Configuration c = one;
      while (c.pp == 1 || c.pp > 5 || c.tp > c.heads) c = drawn(one, 8, random);
      launch_threads(8, [&](const Communicator& world) {
        const std::vector<double> found = losses_in(c, world);
        for (size_t step = 0; step < expected.size(); ++step)
          ASSERT_NEAR(found[step], expected[step], 1e-9 * expected[step])
              << model << " on " << grid_sizes(c).to_string() << " by " << c.pipeline << ", step " << step;
      });
    }
  }
}

TEST(Layouts, give_the_same_bits_by_any_schedule_of_one_stage_a_rank) {
  for (const char* model : {"classifier", "decoder"})
    for (const Precision precision : {Precision::fp64, Precision::fp32, Precision::bf16})
      for_each_world({2, 4}, [&](const Communicator& world) {
        if (world.size() < 2) return;
        Configuration c = odd_sizes(model);
        c.hidden = 40;
        c.precision = precision;
        c.pp = 2;
        c.tp = world.size() / 2;
        c.sp = c.tp > 1;
        c.microbatches = 3;
        if (precision == Precision::fp32) c.recompute = Recompute::segment;
        c.pipeline = "gpipe";
        const std::vector<double> expected = losses_in(c, world);
        for (const char* pipeline : {"1f1b", "zb-h1"}) {
          c.pipeline = pipeline;
          EXPECT_EQ(losses_in(c, world), expected) << model << " by " << pipeline << " in " << int(precision);
        }
      });
}

TEST(Layouts, train_the_same_model_by_pytorchs_schedules) {
  struct Case {
    const char* table;
    int ranks;
    int64_t micro_batches, layers;
  };
  const test::TemporaryFolder folder;
  const std::string file = (folder / "schedule.csv").string();
  for (const auto& [table, ranks, micro_batches, layers] : {Case{test::kInterleaved1F1B, 4, 8, 6},
                                                            {test::kInterleavedZeroBubble, 2, 4, 3},
                                                            {test::kZBVZeroBubble, 2, 4, 3},
                                                            {test::kDualPipeV, 2, 4, 3}}) {
    std::ofstream(file) << table;
    Configuration c = odd_sizes("decoder");  // of which a word's vector is on the first stage and the last
    c.hidden = 40;
    c.layers = layers;
    c.batch = 11;
    const std::vector<double> expected = losses_in(c, Communicator());
    c.pp = ranks;
    c.microbatches = micro_batches;
    c.pipeline = file;
    launch_threads(ranks, [&](const Communicator& world) {
      const std::vector<double> found = losses_in(c, world);
      for (size_t step = 0; step < expected.size(); ++step)
        ASSERT_NEAR(found[step], expected[step], 1e-9 * expected[step]) << table << " step " << step;
    });
  }
}

TEST(Layouts, of_one_context_parallel_rank_gather_nothing) {
  Configuration c = odd_sizes("classifier");
  c.cp_method = nn::AttentionMethod::gathered;
  c.recompute = Recompute::attention;
  EXPECT_EQ(row_options(c).method, nn::AttentionMethod::ring)
      << "a model may be evaluated on fewer ranks than it was trained on";
  EXPECT_FALSE(row_options(c).recompute_attention);
  c.cp = 2;
  EXPECT_EQ(row_options(c).method, nn::AttentionMethod::gathered);
  EXPECT_TRUE(row_options(c).recompute_attention);
}

TEST(Layouts, give_the_same_bits_in_each_stage_of_zero) {
  for (const char* model : {"classifier", "decoder"})
    for (const Precision precision : {Precision::fp32, Precision::bf16})
      for_each_world({2, 3, 4}, [&](const Communicator& world) {
        if (world.size() == 1) return;
        Configuration c = odd_sizes(model);
        c.precision = precision;
        // Between hosts stage 3 gathers what products read in 16 bits: routers compute in 32.
        if (precision == Precision::bf16) c.experts.count = 2;
        c.hidden = 40;
        c.clip = 0;  // the norm is summed in another order
        c.cp = world.size() == 4 ? 2 : 1;
        c.dp = world.size() / c.cp;
        const Communicator group = world.deterministic();  // under MPI too
        const std::vector<double> expected = losses_in(c, group);
        for (c.zero = 2; c.zero <= 3; ++c.zero)  // in stage 0 the update has other elements at the ends of its vectors
          EXPECT_EQ(losses_in(c, group), expected) << model << " on " << grid_sizes(c).to_string() << " in stage "
                                                   << c.zero << " in " << text_of("precision", c);
      });
}

TEST(Layouts, recompute_the_same_bits) {
  for (const char* model : {"classifier", "decoder"}) {
    Configuration c = odd_sizes(model);
    c.hidden = 40;
    const std::vector<double> expected = losses_in(c, Communicator());
    c.recompute = Recompute::segment;
    EXPECT_EQ(losses_in(c, Communicator()), expected) << model;
    for_each_world({2}, [&](const Communicator& world) {
      if (world.size() != 2) return;
      Configuration parallel = odd_sizes(model);
      parallel.hidden = 40;
      parallel.cp = 2;
      parallel.cp_method = nn::AttentionMethod::gathered;
      const std::vector<double> kept = losses_in(parallel, world);
      for (const char* recompute : {"attention", "segment"}) {
        set("recompute", recompute, parallel);
        EXPECT_EQ(losses_in(parallel, world), kept) << model << " " << recompute;
      }
    });
  }
}

}  // namespace
}  // namespace adjoin::train
