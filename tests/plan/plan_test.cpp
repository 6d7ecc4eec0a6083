#include "adjoin/plan/plan.hpp"

#include <ATen/ops/mse_loss.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "adjoin/base/error.hpp"
#include "adjoin/plan/layouts.hpp"
#include "adjoin/plan/measurements.hpp"
#include "adjoin/plan/planned_samples.hpp"
#include "adjoin/plan/step_time.hpp"
#include "adjoin/store/npy.hpp"
#include "adjoin/tensors/tensor_task.hpp"
#include "tests/support/own_task.hpp"
#include "tests/support/random_task.hpp"
#include "tests/support/small_program.hpp"
#include "tests/support/temporary_folder.hpp"

namespace adjoin::plan {
namespace {

using train::Configuration;

constexpr double kSeconds = 0.2;  // that are measured: no test asks how well
constexpr double kAny = 1e9;      // so all of it is kept

Configuration tiny(const std::string& preset) {
  Configuration c = train::configuration_of(preset);
  c.hidden = 16;
  c.heads = 4;
  c.layers = 1;
  c.sequence = 16;
  c.batch = 4;
  c.vocabulary_size = 64;
  c.save = train::SaveMode::wait;
  c.threads_per_rank = 1;
  return c;
}

std::unique_ptr<train::Task> make(const Configuration& c) {
  if (c.is_decoder()) return testing::random_task(c, 4, [&](int64_t) { return 2 * c.sequence; });
  return testing::random_task(c, 8, [](int64_t i) { return 16 - i; });
}

/// Plans with a cache of the test's own.
class Plans : public ::testing::Test {
 protected:
  Plans() { ::setenv("XDG_CACHE_HOME", cache_.path().c_str(), 1); }
  ~Plans() override { ::unsetenv("XDG_CACHE_HOME"); }

  /// Of few methods, so that the test is quick.
  static Plan planned(Configuration c, int64_t ranks, std::optional<int64_t> memory = {}, bool anew = false,
                      std::set<std::string> fixed = {"cp_method", "recompute", "pipeline"}) {
    return layouts(c, make,
                   {.placement = {.ranks = ranks},
                    .memory = memory,
                    .fixed = std::move(fixed),
                    .measuring_seconds = kSeconds,
                    .measures_anew = anew,
                    .tolerance = kAny});
  }

  test::TemporaryFolder cache_;
};

TEST_F(Plans, tell_the_memory_that_the_plan_of_a_step_does) {
  for (const char* preset : {"tiny", "gpt-tiny"})
    for (const PlannedLayout& layout : planned(tiny(preset), 2, {}, false, {"cp_method", "pipeline"}).fitting) {
      const auto task = make(layout.configuration);
      int64_t highest = 0;
      for (const RankPlan& rank : plan_step(layout.configuration, *task, longest_samples(layout.configuration, *task)))
        highest = std::max(highest, rank.highest);
      EXPECT_EQ(layout.memory, highest) << options_of(layout.configuration);
    }
}

TEST_F(Plans, are_sorted_by_time_whose_parts_add_up) {
  const Plan plan = planned(tiny("tiny"), 2);
  ASSERT_GT(plan.fitting.size(), 5U);
  EXPECT_TRUE(plan.too_large.empty());
  double before = 0;
  for (const PlannedLayout& layout : plan.fitting) {
    EXPECT_GT(layout.time.seconds, 0);
    EXPECT_GE(layout.time.seconds, before);
    before = layout.time.seconds;
    EXPECT_NEAR(layout.time.computing + layout.time.communicating + layout.time.bubble, 1, 1e-9);
    EXPECT_GT(layout.time.computing, 0);
    EXPECT_GT(layout.time.communicating, 0);
    EXPECT_NEAR(layout.samples_per_second * layout.time.seconds, 4, 1e-9);
    if (layout.configuration.pp == 1) {
      EXPECT_NEAR(layout.time.bubble, 0, 1e-9);
    }
  }
}

TEST_F(Plans, are_the_same_from_the_same_measurements_and_others_measured_anew) {
  const Plan first = planned(tiny("gpt-tiny"), 2), second = planned(tiny("gpt-tiny"), 2);
  EXPECT_GT(first.seconds_measuring, 0);
  EXPECT_EQ(second.seconds_measuring, 0);
  EXPECT_EQ(to_json(first), to_json(second));
  EXPECT_GT(planned(tiny("gpt-tiny"), 2, {}, /*anew=*/true).seconds_measuring, 0);
}

TEST_F(Plans, in_which_nothing_fits_measure_nothing) {
  const std::set<std::string> fixed{"cp_method", "recompute", "pipeline", "zero", "microbatches"};
  for (const Plan& none : {planned(tiny("tiny"), 2, 1), planned(tiny("tiny"), 32, 1, false, fixed)}) {
    EXPECT_EQ(none.seconds_measuring, 0);
    EXPECT_TRUE(none.fitting.empty());
    ASSERT_FALSE(none.too_large.empty());
    for (const PlannedLayout& layout : none.too_large) EXPECT_FALSE(layout.is_timed());
    EXPECT_TRUE(to_json(none).at("too_large").at(0).at("step_seconds").is_null());
    EXPECT_GT(to_json(none).at("too_large").at(0).at("memory_bytes"), 0);
  }
}

TEST_F(Plans, tell_layouts_that_need_more_memory_apart_and_the_least) {
  const Plan all = planned(tiny("tiny"), 2);
  std::vector<int64_t> needs;
  for (const PlannedLayout& layout : all.fitting) needs.push_back(layout.needs());
  std::ranges::sort(needs);
  const int64_t middle = needs[needs.size() / 2];
  const Plan some = planned(tiny("tiny"), 2, middle);
  EXPECT_EQ(std::ssize(some.fitting), std::ranges::count_if(needs, [&](int64_t n) { return n <= middle; }));
  EXPECT_EQ(some.fitting.size() + some.too_large.size(), needs.size());
  for (size_t i = 1; i < some.too_large.size(); ++i)
    EXPECT_LE(some.too_large[i - 1].needs(), some.too_large[i].needs());
  const Plan none = planned(tiny("tiny"), 2, 1);
  EXPECT_TRUE(none.fitting.empty());
  try {
    best(none);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the least is " + std::to_string(needs.front()) + " bytes"));
  }
}

TEST_F(Plans, are_printed_in_80_columns_with_the_rest_counted) {
  const Plan plan = planned(tiny("tiny"), 4, int64_t{1} << 40, false, {"recompute", "cp_method", "zero", "pipeline"});
  std::ostringstream out;
  print(out, plan, 3);
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_THAT(out.str(), ::testing::HasSubstr("and " + std::to_string(plan.fitting.size() - 3) + " more"));
}

TEST_F(Plans, of_other_hosts_follow_their_network) {
  const auto seconds = [&](double alpha) {
    const Plan plan = layouts(tiny("tiny"), make,
                              {.placement = {.ranks = 4, .hosts = 4, .network = algorithm::Network{alpha, 0}},
                               .fixed = {"zero", "cp_method", "recompute", "pipeline"},
                               .measuring_seconds = kSeconds});
    return plan.fitting.front().time.seconds;
  };
  EXPECT_GT(seconds(1), 2);  // a sum of gradients, an all-gather of weights and the sums of a step: each 1 s at least
  EXPECT_LT(seconds(0), 1);
}

/// A line through points, of a module that knows nothing of workers.
class Line : public train::Task {
 public:
  int64_t size(data::Part) const override { return 20; }
  std::vector<models::Segment> segments() const override {
    const auto make = [](const Grid&, const at::TensorOptions& tensor) {
      torch::nn::Linear layer(3, 1);
      layer->to(tensor.dtype().toScalarType());
      return layer.ptr();
    };
    return {models::segment<torch::nn::LinearImpl>(
        "line", make, [](auto& layer, const at::Tensor& x, const ForwardPass&) { return layer.forward(x); })};
  }
  train::MicroBatch micro_batch(data::Part, std::span<const int64_t>, const data::BatchPart& mine,
                                Step step) const override {
    const at::Tensor input =
        at::tensor(std::vector<float>(static_cast<size_t>(3 * mine.count), 1)).view({mine.count, 3});
    return {input, input.sum(1, /*keepdim=*/true), {step}, mine.count};
  }
  at::Tensor loss(const at::Tensor& output, const train::MicroBatch& batch, const Grid&) const override {
    return at::mse_loss(output, batch.target, at::Reduction::Sum);
  }
};

TEST_F(Plans, of_a_task_of_ones_own_are_made_likewise) {
  Configuration c;
  c.batch = 6, c.threads_per_rank = 1;
  const Plan plan = layouts(c, [](const Configuration&) { return std::make_unique<Line>(); },
                            {.placement = {.ranks = 2}, .measuring_seconds = kSeconds});
  std::set<std::string> options;
  for (const PlannedLayout& layout : plan.fitting) options.insert(options_of(layout.configuration));
  EXPECT_TRUE(options.contains("--dp 2"));
  EXPECT_TRUE(options.contains("--dp 2 --zero 3"));
  EXPECT_FALSE(options.contains("--cp 2"));  // its rows are no tokens
  EXPECT_FALSE(options.contains("--pp 2"));  // of one segment there are no two stages
}

TEST_F(Plans, of_a_program_tell_what_its_layouts_need) {
  const test::TemporaryFolder folder;
  test::write_small_program(folder / "net.pt2");
  std::filesystem::create_directories(folder / "data");
  for (const char* name : {"x", "y"})
    train::write_npy(folder / "data" / (std::string(name) + ".npy"), at::ones({20, 2}));
  Configuration c;
  c.program = (folder / "net.pt2").string();
  c.data = (folder / "data").string();
  c.task = train::kProgramTask;
  c.loss = train::TensorLoss::mse;
  c.batch = 6, c.microbatches = 2, c.threads_per_rank = 1;
  const Plan plan = layouts(c, train::TensorTask::make,
                            {.placement = {.ranks = 2, .hosts = 2, .network = algorithm::Network{1e-6, 0}},
                             .fixed = {"zero", "recompute", "pipeline", "microbatches"},
                             .measuring_seconds = kSeconds,
                             .tolerance = kAny});
  std::set<std::string> options;
  for (const PlannedLayout& layout : plan.fitting) {
    options.insert(options_of(layout.configuration));
    const auto task = train::TensorTask::make(layout.configuration);
    int64_t highest = 0;
    for (const RankPlan& rank : plan_step(layout.configuration, *task, longest_samples(layout.configuration, *task)))
      highest = std::max(highest, rank.highest);
    EXPECT_EQ(layout.memory, highest) << options_of(layout.configuration);
    EXPECT_GT(layout.time.seconds, 0);
  }
  EXPECT_EQ(options,
            (std::set<std::string>{"--dp 2 --microbatches 2", "--tp 2 --microbatches 2", "--pp 2 --microbatches 2"}));
  EXPECT_GT(check(plan, train::TensorTask::make, /*count=*/1, /*steps=*/2).front().seconds, 0);
}

TEST_F(Plans, leave_out_layouts_that_a_task_cannot_take_and_say_why) {
  Configuration c = test::of_plain_task("");
  c.heads = 1;  // of which the task has none
  const auto planned_for = [&](int64_t said) {
    return layouts(
        c, [=](const Configuration&) { return std::make_unique<test::PlainTask>(said); },
        {.placement = {.ranks = 2}, .fixed = {"zero", "recompute", "pipeline"}, .measuring_seconds = kSeconds});
  };
  const auto options = [](const Plan& plan) {
    std::set<std::string> all;
    for (const PlannedLayout& layout : plan.fitting) all.insert(options_of(layout.configuration));
    return all;
  };
  const Plan plan = planned_for(8);
  EXPECT_TRUE(options(plan).contains("--dp 2"));
  EXPECT_TRUE(options(plan).contains("--tp 2"));
  EXPECT_TRUE(options(plan).contains("--pp 2 --microbatches 2"));
  EXPECT_FALSE(options(plan).contains("--cp 2"));
  EXPECT_THAT(plan.remarks, ::testing::Contains(::testing::HasSubstr("left out: --cp 2 is more than the 1 row")));
  try {
    planned_for(9);  // its segments say more features than they give
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the model's segment in says that its output has the shape"));
  }
}

TEST_F(Plans, are_checked_by_training) {
  const Plan plan = planned(tiny("tiny"), 2, {}, false, {"zero", "cp_method", "recompute", "pipeline"});
  const std::vector<MeasuredLayout> measured = check(plan, make, 2, 2);
  ASSERT_EQ(measured.size(), 2U);
  for (const MeasuredLayout& layout : measured) {
    EXPECT_GT(layout.seconds, 0);
    EXPECT_GT(layout.memory, 0);
  }
  std::ostringstream out;
  print_check(out, plan, measured);
  EXPECT_THAT(out.str(), ::testing::HasSubstr("mean error of the seconds"));
}

TEST_F(Plans, are_refuted_by_other_times_of_the_same_layouts_in_any_order) {
  Plan plan = planned(tiny("tiny"), 2, {}, false, {"zero", "cp_method", "recompute", "pipeline"});
  ASSERT_GE(plan.fitting.size(), 3U);
  const auto took = [&](size_t layout, double times) {
    return MeasuredLayout{options_of(plan.fitting[layout].configuration), times * plan.fitting[layout].time.seconds, 1};
  };
  EXPECT_FALSE(is_refuted(plan, {}));
  std::vector<MeasuredLayout> measured{took(2, 0.98), took(0, 1.05), took(1, 1.1)};
  EXPECT_FALSE(is_refuted(plan, measured));
  std::ranges::reverse(plan.fitting);  // as after measuring again
  EXPECT_FALSE(is_refuted(plan, measured));
  EXPECT_EQ(to_json(plan, measured).at("layouts").back().at("measured_step_seconds"), measured[1].seconds);
  for (MeasuredLayout& layout : measured) layout.seconds *= 1.12;
  EXPECT_TRUE(is_refuted(plan, measured));
  EXPECT_TRUE(is_refuted(plan, std::vector{took(0, 1), took(1, 1), took(2, 1 / 1.25)}));
}

TEST(Measurements, are_found_again_but_on_another_machine) {
  const test::TemporaryFolder cache;
  ::setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);
  const nlohmann::ordered_json here{{"host", "a"}, {"cores", 2}}, there{{"host", "a"}, {"cores", 4}};
  Measurements first(here, false);
  EXPECT_EQ(first.find("x"), nullptr);
  first.add("x", {1, 2.5});
  first.add("unsure", {4}, /*keeps=*/false);
  EXPECT_NE(first.find("unsure"), nullptr);
  first.keep();
  Measurements other(here, false);  // adds to what is kept
  other.add("y", {3});
  other.keep();
  const Measurements again(here, false);
  ASSERT_NE(again.find("x"), nullptr);
  EXPECT_EQ(*again.find("x"), (std::vector<double>{1, 2.5}));
  EXPECT_NE(again.find("y"), nullptr);
  EXPECT_EQ(again.find("unsure"), nullptr);
  EXPECT_EQ(Measurements(there, false).find("x"), nullptr);
  EXPECT_EQ(Measurements(here, /*anew=*/true).find("x"), nullptr);
  ::unsetenv("XDG_CACHE_HOME");
}

TEST(StepTime, is_that_of_the_pipelines_simulation_and_of_the_slowest_ranks_update) {
  Configuration c;
  c.pp = 2, c.microbatches = 4;
  const train::Stages stages{.schedule = pipeline::make_schedule("1f1b", 2, 4)};
  std::vector<RankPlan> ranks(2);
  for (int pp = 0; pp < 2; ++pp) {
    ranks[static_cast<size_t>(pp)].updated_weights = 10 * (pp + 1);
    // 1 s forward and 2 s back of each micro-batch, and a call that takes half a second in each.
    ranks[static_cast<size_t>(pp)].work = {{.stage = pp,
                                            .seconds = {.forward = 4, .backward = 8},
                                            .forward = std::vector<PlannedCall>(4, {Collective::all_reduce, 2, 100}),
                                            .backward = std::vector<PlannedCall>(4, {Collective::all_reduce, 2, 100})}};
  }
  const StepTime time =
      step_time(c, stages, ranks,
                {.call = [](const PlannedCall&) { return 0.5; },
                 .update = [](const RankPlan& rank) { return static_cast<double>(rank.updated_weights) / 10; }});
  EXPECT_DOUBLE_EQ(time.seconds, (4 + 2 - 1) * 4.0 + 2);  // 1f1b takes m + p - 1 micro-batches' time
  EXPECT_DOUBLE_EQ(time.computing, (2 * 12.0 + 1 + 2) / (2 * 22));
  EXPECT_DOUBLE_EQ(time.communicating, 2 * 4.0 / (2 * 22));
  EXPECT_NEAR(time.computing + time.communicating + time.bubble, 1, 1e-12);
}

TEST(StepTime, hides_calls_that_go_on_as_far_as_ranks_compute_beside_them) {
  Configuration c;
  c.microbatches = 2;
  const auto call = [](Collective collective) { return PlannedCall{collective, 2, 100, 2, 1, /*goes_on=*/true}; };
  std::vector<RankPlan> ranks(1);
  ranks[0].work = {{.stage = 0,
                    .seconds = {.forward = 4, .backward = 8},
                    .forward = {2, call(Collective::all_gather)},
                    .backward = {call(Collective::reduce_scatter)}}};
  ranks[0].update = {call(Collective::reduce_scatter), call(Collective::reduce_scatter), call(Collective::all_gather)};
  const train::Stages stages{.schedule = pipeline::make_schedule("gpipe", 1, 2)};
  const StepTime time = step_time(
      c, stages, ranks, {.call = [](const PlannedCall&) { return 3.; }, .update = [](const RankPlan&) { return 1.; }});
  ASSERT_EQ(time.path.size(), 3U);
  EXPECT_DOUBLE_EQ(time.path[0].seconds(), 6);          // two gathers
  EXPECT_DOUBLE_EQ(time.path[1].seconds(), 8);          // computing
  EXPECT_DOUBLE_EQ(time.path[2].seconds(), 3 + 1 + 3);  // the last sum, the update, and the last gather
  EXPECT_DOUBLE_EQ(time.seconds, 21);
  EXPECT_DOUBLE_EQ(time.hidden, (4 + 3 + 3) / 21.0);
}

TEST(StepTime, of_halves_is_that_of_the_longer_of_computing_and_calls_between_hosts) {
  Configuration c;
  c.tp = 2, c.microbatches = 3, c.halves = true;
  const std::vector<PlannedCall> calls(30, {Collective::all_reduce, 2, 100, 2});
  const PlannedCall other{Collective::all_reduce, 2, 100, 3};  // of another axis
  std::vector<RankPlan> ranks(1);
  ranks[0].work = {{.stage = 0, .seconds = {.forward = 10, .backward = 20}, .forward = calls, .backward = calls}};
  ranks[0].work[0].backward.push_back(other);
  const train::Stages stages{.schedule = pipeline::make_schedule("gpipe", 1, 6)};
  const auto seconds = [&](double of_call, int64_t ranks_a_host) {
    return step_time(c, stages, ranks,
                     {.call = [&](const PlannedCall& call) { return call == other ? 1 : of_call; },
                      .update = [](const RankPlan&) { return 0.; },
                      .ranks_a_host = ranks_a_host})
        .seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(0.2, 2), 10 + 20 + 1 + 60 * 0.2);
  EXPECT_DOUBLE_EQ(seconds(0.2, 1), 10 + 20 + 1 + 3 * 0.2);  // of each pair one call is beside nothing
  EXPECT_DOUBLE_EQ(seconds(2, 1), 60 * 2 + 3 * 31.0 / 60);   // and here one piece of computing
}

}  // namespace
}  // namespace adjoin::plan
