// Plain modules of LibTorch in the stages of a pipeline.
#include "adjoin/parallel/pipelined.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/optim/sgd.h>

#include "adjoin/nn/state.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/global_tensors.hpp"
#include "tests/support/waves.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel::pipelined_modules {
namespace {

using namespace adjoin::testing;
namespace nn = torch::nn;
using pipeline::Schedule;

constexpr int64_t kWords = 11, kFeatures = 6, kHidden = 10;
constexpr int kMicroBatches = 4;

/// Reads the encoder's output with a norm and two layers.
struct BlockImpl : nn::Module {
  explicit BlockImpl(double dropout) : dropout(dropout) {
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kFeatures})));
    up = register_module("up", nn::Linear(kFeatures, kHidden));
    down = register_module("down", nn::Linear(kHidden, kFeatures));
  }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& memory) {
    const at::Tensor scores = at::softmax(at::matmul(x, memory.transpose(1, 2)), -1);
    const at::Tensor seen = x + at::matmul(scores, memory);
    return seen + at::dropout(down(at::gelu(up(norm(seen)))), dropout, is_training());
  }
  double dropout;
  nn::LayerNorm norm{nullptr};
  nn::Linear up{nullptr}, down{nullptr};
};

/// A source is encoded, and each layer of the decoder reads it. The table of words also scores them.
struct NetImpl : nn::Module {
  explicit NetImpl(int rank = 0, double dropout = 0) {
    table = register_module("table", nn::Embedding(kWords, kFeatures));
    encoder = register_module("encoder", nn::Sequential(nn::Linear(kFeatures, kFeatures), nn::Tanh()));
    blocks = register_module("blocks", nn::ModuleList());
    for (int i = 0; i < 4; ++i) blocks->push_back(std::make_shared<BlockImpl>(dropout));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kFeatures})));
    register_buffer("scale", at::full({1}, 1.5 + rank));
    fill_with_waves(*this, /*scale=*/0.4, /*begin=*/rank);
  }
  at::Tensor score(const at::Tensor& x) { return at::linear(norm(x) * named_buffers()["scale"], table->weight); }
  at::Tensor forward(const at::Tensor& source, const at::Tensor& target) {
    const at::Tensor memory = encoder->forward(table(source));
    at::Tensor x = table(target);
    for (const auto& block : *blocks) x = block->as<BlockImpl>()->forward(x, memory);
    return score(x);
  }
  nn::Embedding table{nullptr};
  nn::Sequential encoder{nullptr};
  nn::ModuleList blocks{nullptr};
  nn::LayerNorm norm{nullptr};
};
using Net = std::shared_ptr<NetImpl>;

/// The encoder's children change the first tensor, the blocks "x"; "target" is only passed on, to the loss.
std::vector<Child> children_of(const Net& net) {
  std::vector<Child> children{
      {"table", [net](const Bundle& in) -> Bundle {
         return {{"memory", net->table(in["source"])}, {"x", net->table(in["target"])}, {"target", in["target"]}};
       }}};
  for (Child& child : parallel::children_of("encoder", net->encoder)) children.push_back(std::move(child));
  const auto read = [](BlockImpl& block, const Bundle& in) {
    return in.with("x", block.forward(in["x"], in["memory"]));
  };
  for (Child& child : parallel::children_of<BlockImpl>("blocks", net->blocks, read))
    children.push_back(std::move(child));
  children.push_back({.name = "head",
                      .forward = [net](const Bundle& in) { return in.with("x", net->score(in["x"])); },
                      .weights = {"norm.*", "scale", "table.*"}});
  return children;
}

/// Of micro-batches with other numbers of samples.
std::vector<Bundle> batches_of(int step) {
  std::vector<Bundle> batches;
  for (int i = 0; i < kMicroBatches; ++i) {
    const int64_t samples = 1 + (i + step) % 3;
    const at::Tensor source = (at::arange(samples * 4) * 3 + i + step).remainder(kWords).view({samples, 4});
    batches.push_back({{"source", source}, {"target", (source.narrow(1, 0, 3) * 2 + 1).remainder(kWords)}});
  }
  return batches;
}
at::Tensor loss_of(const at::Tensor& scores, const at::Tensor& target) {
  return at::cross_entropy_loss(scores.reshape({-1, kWords}), target.roll({-1}, {1}).reshape({-1})) / kMicroBatches;
}
at::Tensor loss_at_end(int, const Bundle& output) {
  return loss_of(output["x"], output["target"]);
}

/// A step of one worker.
double run_plain(NetImpl& net, int step) {
  double sum = 0;
  for (const Bundle& batch : batches_of(step)) {
    const at::Tensor loss = loss_of(net.forward(batch["source"], batch["target"]), batch["target"]);
    loss.backward();
    sum += loss.item<double>();
  }
  return sum;
}

struct Case {
  std::vector<GridShape::Axis> axes;
  std::string schedule = "1f1b";
  int chunks = 1;
  PipelinedOptions options = {};
};
std::vector<Case> cases(int workers) {
  const Cuts tensor_parallel{{{"*.up.*", "outputs over tp"}, {"*.down.weight", "inputs over tp"}}, {}};
  Cuts sequence = tensor_parallel;
  sequence.inputs = {"tokens over tp", "tokens over tp"};
  std::vector<Case> all;
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb-h1"}) all.push_back({{{"pp", workers}}, schedule});
  all.push_back({{{"pp", workers}}, "interleaved", 2});
  if (workers == 2) all.push_back({{{"pp", 2}}, "1f1b", 1, {.sizes = {1, 7}}});
  all.push_back({{{"pp", 1}, {"tp", workers}}, "1f1b", 1, {tensor_parallel}});
  if (workers == 4) {
    all.push_back({{{"pp", 2}, {"tp", 2}}, "1f1b", 1, {tensor_parallel}});
    all.push_back({{{"tp", 2}, {"pp", 2}}, "interleaved", 2, {sequence}});
    all.push_back({{{"dp", 2}, {"pp", 2}}, "1f1b", 1, {{{}, {"samples over dp", "samples over dp"}}}});
  }
  return all;
}
Pipelined pipelined(const Net& net, const Grid& grid, const Case& one) {
  return {*net, children_of(net), grid,
          pipeline::make_schedule(one.schedule, grid.shape().axis_size("pp"), kMicroBatches, one.chunks), one.options};
}

void for_each_case(const std::function<void(const Grid& grid, const Case& one)>& test) {
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    for (const Case& one : cases(world.size())) {
      const Grid grid(world, one.axes);
      SCOPED_TRACE(grid.shape().to_string() + " " + one.schedule);
      test(grid, one);
    }
  });
}

TEST(Pipelined, trains_with_an_optimizer_of_libtorch_as_one_worker_does) {
  for_each_case([](const Grid& grid, const Case& one) {
    NetImpl plain;
    const auto net = std::make_shared<NetImpl>(grid.world().rank());
    Pipelined model = pipelined(net, grid, one);
    const auto options = torch::optim::SGDOptions(0.1).momentum(0.9);
    torch::optim::SGD of_plain(plain.parameters(), options), of_net(model.weights(), options);
    for (int step = 0; step < 3; ++step) {
      if (step != 1) of_plain.zero_grad(), of_net.zero_grad();  // gradients of steps 0 and 1 add up
      EXPECT_NEAR(model.run({.number = step}, batches_of(step), loss_at_end), run_plain(plain, step), 1e-12);
      const auto expected = plain.named_parameters();
      int here = 0;
      for (const auto& item : net->named_parameters()) {
        if (!is_global(item.value())) continue;
        ++here;
        EXPECT_LT(largest_error(whole(item.value().grad()), expected[item.key()].grad()), 1e-12) << item.key();
      }
      EXPECT_EQ(here, model.weights().size());
      of_plain.step();
      of_net.step();
    }
  });
}

TEST(Pipelined, trains_with_our_optimizer_as_one_worker_does) {
  for_each_case([](const Grid& grid, const Case& one) {
    if (one.schedule == "gpipe" || one.schedule == "zb-h1") return;  // have the gradients of 1f1b
    NetImpl plain;
    const auto net = std::make_shared<NetImpl>(grid.world().rank());
    Pipelined model = pipelined(net, grid, one);
    const Grid alone(Communicator(), {{"dp", 1}});
    Distributed reference(plain, alone, {});
    Optimizer of_net(model.trained(), adamw({.epsilon = 1e-3}), {.clip = 0.5, .workers = grid.world()});
    Optimizer of_plain(reference.trained(), adamw({.epsilon = 1e-3}), {.clip = 0.5});
    for (int step = 0; step < 3; ++step) {
      reference.begin({.number = step});
      EXPECT_NEAR(model.run({.number = step}, batches_of(step), loss_at_end), run_plain(plain, step), 1e-11);
      EXPECT_NEAR(of_net.step(1e-2).norm, of_plain.step(1e-2).norm, 1e-11);
    }
  });
}

TEST(Pipelined, gives_its_weights_for_checkpoints_that_other_layouts_read) {
  for_each_case([](const Grid& grid, const Case& one) {
    const auto net = std::make_shared<NetImpl>(grid.world().rank()), other = std::make_shared<NetImpl>(7);
    const Pipelined model = pipelined(net, grid, one), read = pipelined(other, grid, one);
    const adjoin::nn::State state = adjoin::nn::gather_state(model.parameters());
    adjoin::nn::scatter_state(state, read.parameters());
    const adjoin::nn::State again = adjoin::nn::gather_state(read.parameters());
    if (grid.world().rank() != 0) return;
    EXPECT_TRUE(state.at("scale").equal(at::full({1}, 1.5, at::kDouble)));
    for (const auto& item : NetImpl().named_parameters()) {
      EXPECT_TRUE(state.at(item.key()).equal(item.value())) << item.key();
      EXPECT_TRUE(again.at(item.key()).equal(item.value())) << item.key();
    }
  });
}

TEST(Pipelined, keeps_the_weights_of_its_own_stages_alone) {
  for_each_world({2, 4}, [](const Communicator& world) {
    const auto net = std::make_shared<NetImpl>(world.rank());
    const Grid grid(world, {{"pp", world.size()}});
    Pipelined model = pipelined(net, grid, {{}, "1f1b", 1, {}});
    int64_t elements = 0, all = 0;
    for (const at::Tensor& weight : net->parameters())
      elements += is_global(weight) ? weight.numel() : static_cast<int64_t>(weight.storage().nbytes());
    for (const at::Tensor& weight : NetImpl().parameters()) all += weight.numel();
    EXPECT_LT(elements, world.size() == 2 ? 2 * all / 3 : all / 2) << model.to_string();
    EXPECT_EQ(model.parameters().size(), net->parameters().size() + 1);
  });
}

TEST(Pipelined, draws_the_same_masks_wherever_it_is_cut) {
  for_each_case([](const Grid& grid, const Case& one) {
    const auto net = std::make_shared<NetImpl>(0, 0.4), single = std::make_shared<NetImpl>(0, 0.4);
    const Grid alone(Communicator(), {{"pp", 1}});
    Pipelined model = pipelined(net, grid, one), reference = pipelined(single, alone, {{}, "1f1b"});
    const Step step{.seed = 3, .number = 5, .training = true};
    const double found = model.run(step, batches_of(0), loss_at_end);
    EXPECT_NEAR(found, reference.run(step, batches_of(0), loss_at_end), 1e-12);
    EXPECT_GT(std::abs(found - run_plain(*std::make_shared<NetImpl>(), 0)), 1e-6) << "dropout acts";
    for (const auto& item : net->named_parameters()) {
      if (!is_global(item.value())) continue;
      const at::Tensor expected = whole(single->named_parameters()[item.key()].grad());
      EXPECT_LT(largest_error(whole(item.value().grad()), expected), 1e-12) << item.key();
    }
  });
}

TEST(Pipelined, goes_forward_alone_without_gradients) {
  for_each_case([](const Grid& grid, const Case& one) {
    const auto net = std::make_shared<NetImpl>(grid.world().rank());
    Pipelined model = pipelined(net, grid, one);
    const at::NoGradGuard no_gradient;
    std::vector<Bundle> batches = batches_of(0);
    batches.pop_back();
    std::vector<at::Tensor> outputs;
    model.run({}, batches, [&](int, const Bundle& output) {
      outputs.push_back(whole(output["x"]));
      return at::Tensor();
    });
    for (size_t i = 0; i < outputs.size(); ++i)
      EXPECT_LT(largest_error(outputs[i], NetImpl().forward(batches[i]["source"], batches[i]["target"])), 1e-12);
    for (const at::Tensor& weight : model.weights()) EXPECT_FALSE(weight.grad().defined());
  });
}

TEST(Pipelined, refuses_children_and_sizes_that_do_not_fit) {
  const Grid alone(Communicator(), {{"pp", 1}});
  const auto net = std::make_shared<NetImpl>();
  const auto said = [&](std::vector<Child> children, int ranks, PipelinedOptions options) {
    return thrown_by<InvalidArgument>(
        [&] { Pipelined(*net, children, alone, pipeline::make_schedule("1f1b", ranks, 2), options); });
  };
  std::vector<Child> children = children_of(net);
  EXPECT_EQ(said(children, 2, {}), "Pipelined: expected a schedule of 1 ranks, got one of 2");
  EXPECT_EQ(said(children, 1, {.sizes = {3, 4}}),
            "Pipelined: expected 1 size of stages with 8 children in all, got 3, 4");
  EXPECT_EQ(said(children, 1, {.cuts = {{{"up.*", "outputs over tp"}}}}),
            "distribute: expected patterns that name weights, got \"up.*\", which names none");
  children.back().weights = {"norm.*"};
  EXPECT_EQ(said(children, 1, {}), "Pipelined: expected a child that names the weight scale, got none");
  children.back().weights = {"norms.*"};
  EXPECT_EQ(said(children, 1, {}),
            "Pipelined: expected patterns that name weights, got \"norms.*\" of head, which names none");
  EXPECT_FALSE(is_global(net->table->weight)) << "nothing has changed";
  net->blocks->push_back(nn::Linear(2, 2));
  EXPECT_EQ(thrown_by<InvalidArgument>([&] { children_of(net); }),
            "children_of: expected modules of one type, got another as blocks.4");
}

}  // namespace
}  // namespace adjoin::parallel::pipelined_modules
