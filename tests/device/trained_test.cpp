// A training on a device: the same losses as on the CPU.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "adjoin/comm/launch.hpp"
#include "adjoin/models/decoder.hpp"
#include "adjoin/models/model.hpp"
#include "adjoin/models/text_classifier.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/nn/cross_entropy.hpp"
#include "adjoin/nn/init.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "adjoin/parallel/pipeline.hpp"
#include "adjoin/pipeline/schedule.hpp"
#include "tests/support/tested_device.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin {
namespace {

using namespace adjoin::testing;
using models::TransformerOptions;

constexpr int64_t kWords = 23, kSteps = 2;
const std::vector<int64_t> kLengths{7, 5, 6, 8};

struct Parallelism {
  std::string name;
  int dp = 1, pp = 1, cp = 1, tp = 1;
  bool splits_rows = false, rotary = false;
  int zero = 1;
  bool recomputes = false;
  double dropout = 0.2;
  int64_t layers = 2;

  int ranks() const { return dp * pp * cp * tp; }
};

TransformerOptions options_of(const Parallelism& layout, bool is_decoder) {
  using Positions = TransformerOptions::Positions;
  TransformerOptions options{.words = kWords,
                             .layers = layout.layers,
                             .hidden = 24,
                             .heads = 4,
                             .context = 16,
                             .positions = layout.rotary ? Positions::rotary : Positions::learned,
                             .dropout = layout.dropout,
                             .attention_dropout = layout.dropout,
                             .rows = {.split = layout.splits_rows, .axis = layout.cp > 1 ? "cp" : ""}};
  if (is_decoder) {
    options.causal = true;
    options.embedding_cut = nn::ParallelEmbeddingOptions::Cut::vocabulary;
  }
  return options;
}

/// This rank's part of the batch of a step, on the CPU.
struct Batch {
  Batch(const Parallelism& layout, const Grid& grid, int64_t step) {
    const Split samples = Split::balanced(std::ssize(kLengths), layout.dp, 0);
    const int dp = grid.coordinate("dp"), cp = grid.coordinate("cp");
    std::vector<int64_t> lengths, words, following, labels;
    for (int64_t sample = 0, place = 0; sample < std::ssize(kLengths); ++sample)
      for (int64_t token = 0; token < kLengths[static_cast<size_t>(sample)]; ++token, ++place) {
        if (sample < samples.offset(dp) || sample >= samples.offset(dp) + samples.size(dp)) continue;
        if (token == 0) {
          lengths.push_back(kLengths[static_cast<size_t>(sample)]);
          labels.push_back(sample % 3);
        }
        words.push_back((place * 7 + step) % kWords);
        following.push_back((place * 5 + step) % kWords);
      }
    const TokenRows rows = layout.cp > 1 ? TokenRows::zigzag(lengths, layout.cp) : TokenRows::balanced(lengths, 1);
    const auto mine = [&](const std::vector<int64_t>& all) {
      const at::Tensor x = at::tensor(all, at::kLong);
      return layout.cp > 1 ? take_block(x, rows.split(), cp) : x;
    };
    ids = mine(words);
    targets = mine(following);
    const at::Tensor all_labels = at::tensor(labels, at::kLong);
    classes = take_block(all_labels, Split::balanced(std::ssize(labels), layout.cp, 0), cp);
    pass = {.step = {.seed = 5, .number = step, .training = true, .first_sample = samples.offset(dp)},
            .rows = LocalTokenRows(rows, cp)};
  }
  at::Tensor ids, targets, classes;
  ForwardPass pass;
};

/// Of some steps, on all ranks: the losses, and the sum of the squares of all weights; how often the ranks of this process waited for
/// devices in the last step.
struct Trained {
  std::vector<double> numbers;
  int64_t waits;
};

Trained trained(const Communicator& world, const Parallelism& layout, bool is_decoder, at::Device device) {
  const Grid grid(world, {{"dp", layout.dp}, {"ep", 1}, {"pp", layout.pp}, {"cp", layout.cp}, {"tp", layout.tp}});
  const TransformerOptions options = options_of(layout, is_decoder);
  std::vector<models::Segment> segments =
      is_decoder ? models::decoder(options) : models::text_classifier(options, {.classes = 3});
  for (models::Segment& segment : segments) segment.recomputes = layout.recomputes;
  const int stage = grid.coordinate("pp");
  const auto cut = [&](int part) { return segments.begin() + std::ssize(segments) * part / layout.pp; };
  const models::Model model(std::vector<models::Segment>(cut(stage), cut(stage + 1)), grid.at("pp", stage),
                            at::device(device).dtype(at::kDouble));
  const std::vector<nn::Parameter> parameters = nn::parameters_of(*model);
  nn::initialize(parameters, 5);
  parallel::Optimizer optimizer(parameters, parallel::adamw(),
                                {.weight_decay = 0.1, .clip = 1, .zero = layout.zero, .workers = world});
  Trained result;
  for (int64_t step = 0; step < kSteps; ++step) {
    const Batch batch(layout, grid, step);
    world.barrier();
    const int64_t waits_before = host_waits();
    world.barrier();
    double sum = 0;
    const auto forward = [&](int, int, const parallel::Bundle& input) -> parallel::Bundle {
      return model->forward(stage == 0 ? batch.ids.to(device) : static_cast<const at::Tensor&>(input), batch.pass);
    };
    const auto loss = [&](int, const parallel::Bundle& output) {
      const at::Tensor& scores = output;
      const at::Tensor mine =
          is_decoder ? nn::vocabulary_parallel_cross_entropy(scores, batch.targets.to(device), grid.axis("tp"),
                                                             Split::balanced(kWords, layout.tp, 1)) /
                           26.0
                     : nn::cross_entropy(scores, batch.classes.to(device)) / 4.0;
      EXPECT_EQ(mine.device().type(), device.type());
      sum = mine.detach().item<double>();
      return mine;
    };
    parallel::run_pipeline(pipeline::make_schedule("1f1b", layout.pp, 1), grid.axis("pp"),
                           {.forward = forward, .loss = loss, .output = at::device(device).dtype(at::kDouble)});
    grid.group({"dp", "pp", "cp"}).all_reduce(buffer(sum));
    optimizer.step(0.01);
    result.numbers.push_back(sum);
    world.barrier();
    result.waits = host_waits() - waits_before;
    world.barrier();
  }
  double squares = 0;
  for (const nn::Parameter& parameter : parameters)
    squares += parameter.tensor.detach().cpu().square().sum().item<double>();
  world.all_reduce(buffer(squares));
  result.numbers.push_back(squares);
  return result;
}

/// In turn, the ranks have one device together and two.
void expect_as_on_cpu(const std::vector<Parallelism>& layouts, bool is_decoder) {
  for_each_world({1, 2, 4}, [&](const Communicator& world) {
    for (size_t number = 0; number < layouts.size(); ++number) {
      const Parallelism& layout = layouts[number];
      if (layout.ranks() != world.size()) continue;
      SCOPED_TRACE(layout.name);
      const std::vector<double> on_cpu = trained(world, layout, is_decoder, at::kCPU).numbers;
      const int devices = number % 2 == 0 ? 1 : std::min(2, world.size());
      const std::vector<double> on_device =
          trained(world, layout, is_decoder, tested_device(world.rank() % devices)).numbers;
      for (size_t i = 0; i < on_cpu.size(); ++i) EXPECT_NEAR(on_device[i], on_cpu[i], 1e-9 * std::abs(on_cpu[i]));
    }
  });
}

TEST(Device, trains_a_classifier_as_the_cpu_does_in_every_layout) {
  expect_as_on_cpu({{.name = "one rank"},
                    {.name = "recomputed", .recomputes = true},
                    {.name = "dp, zero 0", .dp = 2, .zero = 0},
                    {.name = "dp, zero 1", .dp = 2, .zero = 1},
                    {.name = "dp, zero 2", .dp = 2, .zero = 2},
                    {.name = "tp", .tp = 2},
                    {.name = "tp, split rows", .tp = 2, .splits_rows = true},
                    {.name = "pp", .pp = 2},
                    {.name = "cp", .cp = 2},
                    {.name = "dp and tp", .dp = 2, .tp = 2}},
                   /*is_decoder=*/false);
}

TEST(Device, trains_a_decoder_as_the_cpu_does_in_every_layout) {
  expect_as_on_cpu({{.name = "one rank, rotary", .rotary = true},
                    {.name = "dp", .dp = 2},
                    {.name = "tp", .tp = 2},
                    {.name = "tp, split rows", .tp = 2, .splits_rows = true},
                    {.name = "cp", .cp = 2},
                    {.name = "cp, rotary", .cp = 2, .rotary = true},
                    {.name = "cp and tp", .cp = 2, .tp = 2}},
                   /*is_decoder=*/true);
}

// Among them are the loss, which the test reads, the gradient's norm, and the check of a decoder's targets.
TEST(Device, makes_the_host_wait_at_most_4_times_in_a_step) {
  for (const bool is_decoder : {false, true})
    EXPECT_LE(trained(Communicator(), {.name = "one rank"}, is_decoder, kSimulated).waits, 4);
}

// However many collectives there are: each of the ranks waits as one alone does, and for the loss that the test sums on the host.
TEST(Device, makes_the_host_wait_as_often_with_more_collectives) {
  if (started_by_mpi()) return;  // whose calls are staged
  for (const Parallelism& layout : {Parallelism{.name = "dp", .dp = 2}, {.name = "tp", .tp = 2}})
    launch_threads(2, [&](const Communicator& world) {
      Parallelism longer = layout;
      longer.layers = 4;
      const int64_t waits = trained(world, layout, /*is_decoder=*/false, kSimulated).waits;
      EXPECT_LE(waits, 2 * 4) << layout.name;
      EXPECT_EQ(trained(world, longer, /*is_decoder=*/false, kSimulated).waits, waits) << layout.name;
    });
}

}  // namespace
}  // namespace adjoin
