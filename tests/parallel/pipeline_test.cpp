#include "adjoin/parallel/pipeline.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <chrono>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/movement/peak_memory.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/schedules.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;
using pipeline::Schedule;

constexpr int64_t kFeatures = 3;

/// A stage is a linear layer and tanh, of the same weights on every rank.
torch::nn::Linear layer_of(int stage) {
  torch::nn::Linear layer(torch::nn::LinearOptions(kFeatures, kFeatures));
  layer->to(at::kDouble);
  const at::NoGradGuard no_gradient;
  layer->weight.copy_(at::arange(9, at::kDouble).add(stage).sin().view({3, 3}));
  layer->bias.fill_(0.1 * stage);
  return layer;
}

/// Micro-batches of other sizes, also of no rows.
at::Tensor rows_of(int micro_batch) {
  const int64_t rows = micro_batch % 4;
  return at::arange(rows * kFeatures, at::kDouble).add(micro_batch).cos().view({rows, kFeatures});
}

/// What training gives: the sum of the losses, and the gradients of each layer's weight; undefined where it is elsewhere.
struct Trained {
  double loss = 0;
  std::vector<at::Tensor> gradients;
};

/// How a stage after the first changes its input before anything else.
using Entry = std::function<at::Tensor(const at::Tensor&)>;
at::Tensor unchanged(const at::Tensor& x) {
  return x;
}

Trained on_one_worker(int stages, int micro_batches, const Entry& entry = unchanged) {
  std::vector<torch::nn::Linear> layers;
  for (int stage = 0; stage < stages; ++stage) layers.push_back(layer_of(stage));
  Trained trained;
  for (int i = 0; i < micro_batches; ++i) {
    at::Tensor x = rows_of(i);
    for (size_t stage = 0; stage < layers.size(); ++stage) x = layers[stage](stage > 0 ? entry(x) : x).tanh();
    const at::Tensor loss = x.square().sum();
    loss.backward();
    trained.loss += loss.item<double>();
  }
  for (auto& layer : layers) trained.gradients.push_back(layer->weight.grad());
  return trained;
}

/// `between` is called before each pass of a stage.
Trained by(
    const Schedule& schedule, const Communicator& ranks, const std::function<void()>& between = [] {},
    const Entry& entry = unchanged) {
  std::vector<torch::nn::Linear> layers;
  for (int stage = 0; stage < schedule.stages; ++stage) layers.push_back(layer_of(stage));
  Trained trained;
  PipelineWork work{
      .forward =
          [&](int stage, int micro_batch, const at::Tensor& input) {
            between();
            EXPECT_EQ(schedule.rank_of[static_cast<size_t>(stage)], ranks.rank());
            return layers[static_cast<size_t>(stage)](input.defined() ? entry(input) : rows_of(micro_batch)).tanh();
          },
      .loss =
          [&](int, const at::Tensor& output) {
            const at::Tensor loss = output.square().sum();
            trained.loss += loss.item<double>();
            return loss;
          },
      .output_shape = [](int, int micro_batch) { return rows_of(micro_batch).sizes().vec(); },
      .output = at::kDouble};
  run_pipeline(schedule, ranks, work);
  for (auto& layer : layers) trained.gradients.push_back(layer->weight.grad());
  return trained;
}

void expect_same(const Trained& found, const Trained& expected, const Schedule& schedule, int rank) {
  if (schedule.rank_of.back() == rank) {
    EXPECT_NEAR(found.loss, expected.loss, 1e-12 * (1 + expected.loss));
  }
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const auto place = static_cast<size_t>(stage);
    if (schedule.rank_of[place] == rank)
      EXPECT_TRUE(at::allclose(found.gradients[place], expected.gradients[place], 1e-12, 1e-12)) << stage;
    else
      EXPECT_FALSE(found.gradients[place].defined());
  }
}

TEST(RunPipeline, gives_one_workers_gradients_by_every_schedule) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const std::string_view name : pipeline::schedule_names())
      for (const int micro_batches : {1, 2, 5, 8})
        for (const int chunks : {1, 2}) {
          if (chunks > 1 && name != "interleaved") continue;
          const Schedule schedule = pipeline::make_schedule(name, world.size(), micro_batches, chunks);
          expect_same(by(schedule, world), on_one_worker(schedule.stages, micro_batches), schedule, world.rank());
        }
  });
}

TEST(RunPipeline, of_random_schedules_and_delays_never_hangs) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const Schedule schedule = random_schedule(seed);
    const Trained expected = on_one_worker(schedule.stages, schedule.micro_batches);
    launch_threads(schedule.ranks(), [&](const Communicator& world) {
      std::mt19937 random(static_cast<unsigned>(100 * seed) + static_cast<unsigned>(world.rank()));
      const auto delay = [&] {
        if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
      };
      expect_same(by(schedule, world, delay), expected, schedule, world.rank());
    });
  }
}

TEST(RunPipeline, of_stages_that_begin_in_place_is_as_on_one_worker) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    for (const std::string_view name : {"gpipe", "1f1b", "zb-h1"}) {
      const Schedule schedule = pipeline::make_schedule(name, world.size(), 5);
      const Trained found = by(
          schedule, world, [] {}, [](const at::Tensor& x) { return x.mul_(0.5).relu_(); });
      const Trained expected = on_one_worker(schedule.stages, 5, [](const at::Tensor& x) { return x.mul(0.5).relu(); });
      expect_same(found, expected, schedule, world.rank());
    }
  });
}

/// x as a view that negates what it reads, so that its memory does not contain the values.
at::Tensor negated_twice(const at::Tensor& x) {
  return at::_neg_view(x.neg());
}

TEST(RunPipeline, sends_outputs_and_gradients_in_any_memory) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const Schedule schedule = pipeline::make_schedule("1f1b", world.size(), 3);
    for (const at::ScalarType type : {at::kDouble, at::kComplexDouble}) {
      const bool is_complex = type == at::kComplexDouble;
      const at::Tensor weight = at::full({2}, 3, type).requires_grad_();
      double loss = 0;
      run_pipeline(schedule, world,
                   {.forward =
                        [&](int, int micro_batch, const at::Tensor& input) {
                          const at::Tensor x = input.defined() ? input : at::ones({2}, type) * micro_batch;
                          // The gradient of a conjugate is a view that conjugates, as is the output.
                          const at::Tensor y = is_complex ? x.conj() : negated_twice(x);
                          return is_complex ? (y * weight).conj() : negated_twice(y * weight);
                        },
                    .loss =
                        [&](int, const at::Tensor& output) {
                          const at::Tensor sum = at::real(output).sum();
                          loss += sum.item<double>();
                          return sum;
                        },
                    .output_shape = [](int, int) { return std::vector<int64_t>{2}; },
                    .output = type});
      const double factor = std::pow(3, world.size());
      if (world.rank() == world.size() - 1) EXPECT_EQ(loss, 2 * factor * (0 + 1 + 2));
      EXPECT_TRUE(weight.grad().equal(at::full({2}, factor / 3 * (0 + 1 + 2), type)));
    }
  });
}

TEST(RunPipeline, goes_forward_alone_without_gradients) {
  for_each_world({2, 3}, [](const Communicator& world) {
    const Schedule schedule =
        pipeline::forward_only(pipeline::make_schedule("interleaved", world.size(), 1, 2), /*micro_batches=*/7);
    const Trained found = by(schedule, world);
    if (schedule.rank_of.back() == world.rank()) {
      EXPECT_NEAR(found.loss, on_one_worker(schedule.stages, 7).loss, 1e-12);
    }
    for (const at::Tensor& gradient : found.gradients) EXPECT_FALSE(gradient.defined());
  });
}

/// A rank that has the gradient of what it sent knows that this was received.
TEST(RunPipeline, keeps_no_message_whose_gradient_has_come) {
  static constexpr int64_t kElements = 1 << 20, kBytes = 4 * kElements;
  for_each_world({2}, [](const Communicator& world) {
    if (world.size() != 2) return;
    const PeakMemory memory;
    int64_t in_backward = 0;
    const at::Tensor weight = at::ones({1}).requires_grad_(true);
    const PipelineWork work{
        .forward =
            [&](int stage, int, const at::Tensor& input) {
              if (stage == 1) return input.sum();
              const at::Tensor output = weight.expand({kElements}).clone();  // keeps nothing
              output.register_hook([&](const at::Tensor&) { in_backward = memory.current_bytes(); });
              return output;
            },
        .loss = [](int, const at::Tensor& output) { return output; },
        .output_shape = [](int, int) { return std::vector<int64_t>{kElements}; }};
    run_pipeline(pipeline::make_schedule("1f1b", 2, 1), world, work);
    if (world.rank() == 0) {
      EXPECT_LT(in_backward, kBytes + kBytes / 2) << "the gradient alone";
    }
    EXPECT_EQ(world.rank() == 0 ? weight.grad().item<float>() : kElements, kElements);
  });
}

TEST(RunPipeline, tells_the_cause_where_a_stage_fails) {
  const std::string said = failure_of<InvalidArgument>(3, [](const Communicator& world) {
    int calls = 0;
    by(pipeline::make_schedule("1f1b", 3, 6), world,
       [&] { require(world.rank() != 1 || ++calls < 4, "the stage's own words"); });
  });
  EXPECT_EQ(said.find("the stage's own words") == std::string::npos, false) << said;
}

TEST(RunPipeline, refuses_a_schedule_of_other_ranks) {
  const std::string said =
      thrown_by<InvalidArgument>([] { run_pipeline(pipeline::make_schedule("gpipe", 2, 2), Communicator(), {}); });
  EXPECT_EQ(said, "run_pipeline: expected a schedule of 1 ranks, got one of 2");
}

}  // namespace
}  // namespace adjoin::parallel
