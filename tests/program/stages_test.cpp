#include "adjoin/program/stages.hpp"

#include <gmock/gmock.h>
#include <torch/csrc/autograd/variable.h>

#include <array>
#include <cstdlib>
#include <random>
#include <set>
#include <sstream>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"
#include "adjoin/parallel/automatic.hpp"
#include "adjoin/parallel/distribute.hpp"
#include "adjoin/program/recompute.hpp"
#include "adjoin/program/save_state.hpp"
#include "tests/program/cases.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/global_tensors.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::program {
namespace {

using namespace adjoin::testing;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr Step kStep{.seed = 3, .number = 1, .training = true};
constexpr int kMicroBatches = 2;

std::vector<parallel::Bundle> batches_of(const Expected& expected, int64_t count = kMicroBatches) {
  std::vector<parallel::Bundle> batches;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<parallel::Bundle::Item> items;
    for (const at::Tensor& input : expected.all("input"))
      items.push_back({std::to_string(items.size()), input.chunk(count)[i]});
    batches.emplace_back(items);
  }
  return batches;
}
std::vector<c10::IValue> values_of(const parallel::Bundle& batch) {
  std::vector<c10::IValue> values;
  for (const auto& [name, x] : batch.items()) values.emplace_back(x);
  return values;
}

/// A step of one worker; the gradients are then those of the program's weights, which are whole.
double step_alone(Program& net, const std::vector<parallel::Bundle>& batches) {
  const parallel::Distributed model(net, Grid(Communicator(), {{"dp", 1}}), {});
  double sum = 0;
  for (size_t i = 0; i < batches.size(); ++i) {
    model.begin(kStep, static_cast<int64_t>(i) << 32);
    const auto alike = model.draw_alike();
    std::vector<c10::IValue> inputs;
    for (const auto& [name, x] : batches[i].items()) inputs.emplace_back(model.input(x, inputs.size()));
    const at::Tensor loss = whole(loss_of(net.run(inputs)));
    if (loss.requires_grad()) loss.backward();
    sum += loss.item<double>();
  }
  return sum;
}

double step_in(parallel::Pipelined& model, const std::vector<parallel::Bundle>& batches) {
  return model.run(kStep, batches, [](int, const parallel::Bundle& output) { return loss_of(output); });
}

void expect_same_gradients(const Program& found, const Program& expected) {
  for (const auto& item : found.named_parameters()) {
    const at::Tensor gradient = expected.named_parameters()[item.key()].grad();
    if (!is_global(item.value()) || !gradient.defined()) continue;  // of another stage, or not used
    EXPECT_LT(largest_error(whole(item.value().grad()), whole(gradient)), 1e-12) << item.key();
  }
}

const parallel::Cuts kTensorParallel{{{"*.qkv.*", "outputs over tp in 3 parts by 4"},
                                      {"*.out.weight", "inputs over tp by 4"},
                                      {"*.up.*", "outputs over tp"},
                                      {"*.down.weight", "inputs over tp"},
                                      {"words.weight", "words over tp"}}};

TEST(ProgramStages, train_and_evaluate_as_one_worker_does) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const auto folder = cases(world);
    const Expected expected(folder / "dropping.safetensors");
    const auto batches = batches_of(expected);
    const auto alone = load_program(folder / "dropping.pt2");
    const double loss = step_alone(*alone, batches);
    std::vector<std::vector<GridShape::Axis>> grids{{{"pp", world.size()}}};
    if (world.size() == 4) grids.push_back({{"pp", 2}, {"tp", 2}});
    for (const auto& axes : grids) {
      const Grid grid(world, axes);
      const int pp = grid.shape().axis_size("pp");
      const auto net = load_program(folder / "dropping.pt2");
      if (axes.size() > 1) net->recompute({"blocks.*"});
      parallel::Pipelined model(*net, stages(net, pp, world, values_of(batches[0])), grid,
                                pipeline::make_schedule("1f1b", pp, kMicroBatches),
                                {.cuts = axes.size() > 1 ? kTensorParallel : parallel::Cuts()});
      SCOPED_TRACE(grid.shape().to_string() + model.to_string());
      EXPECT_NEAR(step_in(model, batches), loss, 1e-12 * std::max(1.0, std::abs(loss)));
      expect_same_gradients(*net, *alone);
      const at::NoGradGuard no_gradient;
      net->eval();
      const auto evaluated = load_program(folder / "dropping.pt2");
      evaluated->eval();
      EXPECT_NEAR(step_in(model, batches), step_alone(*evaluated, batches), 1e-11);
    }
  });
}

TEST(ProgramStages, are_cut_after_any_value) {
  for (const std::string name : {"dropping", "cnn"}) {
    const Expected expected(cases() / (name + ".safetensors"));
    const auto batches = batches_of(expected);
    const auto alone = load_program(cases() / (name + ".pt2"));
    const double loss = step_alone(*alone, batches);
    int cut = 0, refused = 0;
    const Graph& graph = alone->graph().graph;
    for (size_t i = 0; i + 1 < graph.nodes.size(); ++i) {
      const std::string& value = graph.values[static_cast<size_t>(graph.nodes[i].outputs[0])].name;
      SCOPED_TRACE(name + " " + value);
      const auto net = load_program(cases() / (name + ".pt2"));
      std::vector<parallel::Child> children;
      try {
        children = stages_at(net, {value});
      } catch (const InvalidArgument& error) {
        EXPECT_THAT(error.what(), HasSubstr("writes to a value"));
        ++refused;
        continue;
      }
      parallel::Pipelined model(*net, children, Grid(Communicator(), {{"pp", 1}}),
                                pipeline::make_schedule("interleaved", 1, kMicroBatches, 2));
      EXPECT_NEAR(step_in(model, batches), loss, 1e-12 * std::max(1.0, std::abs(loss)));
      expect_same_gradients(*net, *alone);
      ++cut;
    }
    EXPECT_GT(cut, 5);
    EXPECT_LT(refused, 3);
  }
}

TEST(ProgramStages, send_what_depends_on_weights_alone) {
  const auto net = load_program(cases() / "dropping.pt2");
  const auto batches = batches_of(Expected(cases() / "dropping.safetensors"));
  const std::vector<parallel::Child> two = stages_at(net, {"blocks.1"});
  const parallel::Bundle sent = two[0].with_micro_batch({}, batches[0]);
  ASSERT_EQ(sent.size(), 2u);  // the rows and the shift, and neither the mask nor positions
  EXPECT_EQ(sent.items()[1].tensor.sizes(), (std::vector<int64_t>{2, 9, 24}));
  EXPECT_EQ(std::ranges::count(two[0].weights, "words.weight"), 1);
  EXPECT_EQ(std::ranges::count(two[1].weights, "words.weight"), 1);
  EXPECT_EQ(std::ranges::count(two[1].weights, "positions.weight"), 0);
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { stages_at(net, {"block"}); }),
            "program: expected names of modules or values, got \"block\"");
  EXPECT_THAT(thrown_by<InvalidArgument>([&] { stages(net, 1000, Communicator(), {}); }),
              HasSubstr("cannot be cut into 1,000 stages"));
}

/// The nodes of autograd's graph, which keep what backward needs.
size_t nodes_behind(const at::Tensor& x) {
  std::set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> next{x.grad_fn().get()};
  while (!next.empty()) {
    torch::autograd::Node* node = next.back();
    next.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    for (const auto& edge : node->next_edges()) next.push_back(edge.function.get());
  }
  return seen.size();
}

TEST(ProgramRecompute, keeps_less_and_has_the_same_bits) {
  const Expected expected(cases() / "dropping.safetensors");
  size_t nodes = 0;
  std::vector<std::shared_ptr<Program>> nets;
  for (const std::string pattern : {"", "blocks.*", "blocks.0.up"}) {
    nets.push_back(load_program(cases() / "dropping.pt2"));
    if (!pattern.empty()) nets.back()->recompute({pattern});
    torch::manual_seed(7);
    const at::Tensor loss = loss_of(nets.back()->run(as_values(expected.all("input"))));
    EXPECT_TRUE(at::equal(loss, expected["loss"]));
    if (pattern.empty()) nodes = nodes_behind(loss);
    if (pattern == "blocks.*") {
      EXPECT_LT(nodes_behind(loss), nodes / 2);
    }
    const at::Tensor before = at::rand({3});
    loss.backward();
    for (const auto& item : nets.back()->named_parameters())
      EXPECT_TRUE(at::equal(item.value().grad(), expected["gradient." + item.key()])) << pattern << item.key();
    const at::Tensor after = at::rand({3});
    torch::manual_seed(7);
    loss_of(nets[0]->run(as_values(expected.all("input"))));
    EXPECT_TRUE(at::equal(before, at::rand({3})) && at::equal(after, at::rand({3}))) << "others draw as without it";
  }
  const auto error = [](const std::string& file, const std::string& pattern) {
    const auto net = load_program(cases() / (file + ".pt2"));
    return thrown_by<InvalidArgument>([&] { net->recompute({pattern}); });
  };
  EXPECT_THAT(error("dropping", "block.*"), HasSubstr("\"block.*\", which names none"));
  EXPECT_THAT(error("cnn", "body"), HasSubstr("writes to a value from elsewhere"));
}

TEST(ProgramRecompute, computes_the_same_on_many_workers) {
  for_each_world({2, 3}, [](const Communicator& world) {
    const auto folder = cases(world);
    const Expected expected(folder / "dropping.safetensors");
    std::vector<at::Tensor> losses;
    std::vector<std::shared_ptr<Program>> nets;
    for (const std::string pattern : {"", "blocks.*", "blocks.0"}) {
      nets.push_back(load_program(folder / "dropping.pt2"));
      if (!pattern.empty()) nets.back()->recompute({pattern});
      auto model = parallel::distribute(nets.back(), Grid(world, {{"tp", world.size()}}), kTensorParallel);
      losses.push_back(loss_of(model.forward(kStep, expected["input.0"], expected["input.1"])));
      losses.back().backward();
    }
    EXPECT_TRUE(at::equal(whole(losses[0]), whole(losses[1])) && at::equal(whole(losses[0]), whole(losses[2])));
    for (const auto& item : nets[0]->named_parameters())
      for (const size_t net : {1u, 2u})  // the first block alone gives a sum in another order
        EXPECT_LT(largest_error(whole(item.value().grad()), whole(nets[net]->named_parameters()[item.key()].grad())),
                  1e-13)
            << item.key();
  });
}

TEST(ProgramFile, is_written_with_other_weights) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const test::TemporaryFolder own;
    const std::filesystem::path folder = text_from_rank(0, own.path().string(), world), written = folder / "new.pt2";
    for (const std::string name : {"transformer", "cnn"}) {
      const Expected expected(cases(world) / (name + ".safetensors"));
      const auto net = load_program(cases(world) / (name + ".pt2"));
      for (const at::Tensor& weight : net->parameters()) weight.detach().mul_(0.5);
      const parallel::Distributed model(*net, Grid(world, {{"tp", world.size()}}), {{{"*.weight", "outputs over tp"}}});
      save_state(*net, written);
      world.barrier();
      const auto again = load_program(written), plain = load_program(cases(world) / (name + ".pt2"));
      for (const auto& item : plain->named_parameters())
        EXPECT_TRUE(at::equal(again->named_parameters()[item.key()], item.value() * 0.5)) << item.key();
      EXPECT_EQ(again->shared_names(), plain->shared_names());
      EXPECT_EQ(again->eval_mode(), "a graph of its own");
      world.barrier();
    }
  });
}

/// A layout of a step of some ranks, and the step, drawn by a seed.
struct DrawnLayout {
  int pp = 1, tp = 1, dp = 1, micro_batches = 1, chunks = 1;
  std::string schedule;
  bool recomputes = false, trains = false;

  DrawnLayout(uint64_t seed, int ranks) {
    std::mt19937_64 random(seed);
    const auto drawn = [&](uint64_t count) { return static_cast<int>(random() % count); };
    const auto divisor_of = [&](int number) {
      int divisor = 1 + drawn(static_cast<uint64_t>(number));
      while (number % divisor != 0) --divisor;
      return divisor;
    };
    pp = divisor_of(ranks);
    tp = divisor_of(ranks / pp);
    dp = ranks / pp / tp;
    micro_batches = 1 + drawn(2);
    const bool may_have_chunks = micro_batches % pp == 0;
    schedule = std::array{"gpipe", "1f1b", "zb-h1", "interleaved"}[static_cast<size_t>(drawn(may_have_chunks ? 4 : 3))];
    chunks = schedule == "interleaved" ? 2 : 1;
    recomputes = drawn(2) == 1;
    trains = drawn(2) == 1;
  }
  std::string to_string() const {
    return "pp " + std::to_string(pp) + " tp " + std::to_string(tp) + " dp " + std::to_string(dp) + " " + schedule +
           " of " + std::to_string(micro_batches) + (recomputes ? " recomputed" : "") + (trains ? " trained" : "");
  }
};

/// The cuts over tp that are found for a program.
parallel::Cuts found_cuts(const std::filesystem::path& file, const DrawnLayout& drawn, const parallel::Bundle& batch) {
  parallel::Cuts cuts;
  if (drawn.tp > 1) {
    const auto net = load_program(file);
    std::vector<at::Tensor> inputs;
    for (const auto& [name, x] : batch.items()) inputs.push_back(x);
    parallel::AutomaticOptions options{.weights_over = {"tp"}};
    options.inputs.assign(inputs.size(), {"samples over dp"});
    parallel::CutSearch search(
        parallel::tensors_of(*net), GridShape({{"dp", drawn.dp}, {"tp", drawn.tp}}), inputs,
        [&] { net->run(as_values(inputs)); }, options);
    cuts = search.best();
  }
  cuts.inputs.assign(batch.size(), "samples over dp");
  return cuts;
}

/// Where blocks cannot be computed again, such as those with statistics, the layout is without it.
void recompute_blocks(Program& net) {
  try {
    net.recompute(repeated_modules(net));
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(),
                AnyOf(HasSubstr("writes to a value from elsewhere"), HasSubstr("has no list of modules")));
  }
}

void expect_as_one_worker(const std::filesystem::path& file, const Expected& expected, const DrawnLayout& drawn,
                          const Communicator& world) {
  const auto alone = load_program(file), net = load_program(file);
  for (const auto& item : alone->named_buffers())
    for (const auto& program : {alone, net})
      program->named_buffers()[item.key()].copy_(expected["buffer." + item.key()]);
  const auto batches = batches_of(expected, drawn.micro_batches);
  if (drawn.recomputes) recompute_blocks(*net);
  const Grid grid(world, {{"dp", drawn.dp}, {"pp", drawn.pp}, {"tp", drawn.tp}});
  parallel::Pipelined model(*net, stages(net, drawn.pp * drawn.chunks, world, values_of(batches[0])), grid,
                            pipeline::make_schedule(drawn.schedule, drawn.pp, drawn.micro_batches, drawn.chunks),
                            {.cuts = found_cuts(file, drawn, batches[0])});
  SCOPED_TRACE(drawn.to_string() + "\n" + model.to_string());
  alone->train(drawn.trains);
  net->train(drawn.trains);
  const double loss = step_alone(*alone, batches);
  EXPECT_NEAR(step_in(model, batches), loss, 1e-12 * std::max(1.0, std::abs(loss)));
  expect_same_gradients(*net, *alone);
}

/// Of the programs of `cases` that the environment names; tools/check_deep exported.
TEST(ProgramFamilies, compute_the_same_in_drawn_layouts) {
  constexpr uint64_t kDraws = 10;
  const char* names = std::getenv("ADJOIN_TEST_FAMILIES");
  if (names == nullptr) GTEST_SKIP() << "ADJOIN_TEST_FAMILIES names no families";
  std::istringstream list(names);
  for (std::string name; list >> name;)
    for_each_world({2, 3, 4}, [&](const Communicator& world) {
      const auto folder = cases(world);
      SCOPED_TRACE(name);
      for (uint64_t seed = 0; seed < kDraws; ++seed)
        if (world.size() == static_cast<int>(2 + seed % 3))
          expect_as_one_worker(folder / (name + "-double.pt2"), Expected(folder / (name + "-double.safetensors")),
                               DrawnLayout(seed + hash_of(name), world.size()), world);
    });
}

}  // namespace
}  // namespace adjoin::program
