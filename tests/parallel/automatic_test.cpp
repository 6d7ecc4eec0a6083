#include "adjoin/parallel/automatic.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include "examples/networks/decoder.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/global_tensors.hpp"
#include "tests/support/waves.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel::automatic_cuts {
namespace {

using namespace adjoin::testing;
using ::testing::HasSubstr;
namespace nn = torch::nn;

template <class Module>
std::shared_ptr<Module> filled(std::shared_ptr<Module> module) {
  fill_with_waves(*module);
  return module;
}

// ---- networks, and cuts as one writes them by hand

struct UNet : nn::Module {
  explicit UNet(int64_t width = 4)
      : fine(register_module("fine", twice(1, width))),
        coarse(register_module("coarse", twice(width, 2 * width))),
        up(register_module("up", nn::ConvTranspose2d(nn::ConvTranspose2dOptions(2 * width, width, 2).stride(2)))),
        again(register_module("again", twice(2 * width, width))),
        classes(register_module("classes", nn::Conv2d(nn::Conv2dOptions(width, 3, 1)))) {}
  static nn::Sequential twice(int64_t in, int64_t out) {
    return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1).bias(false)), nn::BatchNorm2d(out),
                          nn::ReLU(), nn::Conv2d(nn::Conv2dOptions(out, out, 3).padding(1).bias(false)),
                          nn::BatchNorm2d(out), nn::ReLU());
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor a = fine->forward(x), b = coarse->forward(at::max_pool2d(a, 2));
    return classes(again->forward(at::cat({up(b), a}, 1)));
  }
  nn::Sequential fine, coarse;
  nn::ConvTranspose2d up;
  nn::Sequential again;
  nn::Conv2d classes;
};

struct ResidualBlockImpl : nn::Module {
  ResidualBlockImpl(int64_t in, int64_t out, int64_t stride)
      : first(
            register_module("first", nn::Conv2d(nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false)))),
        norm1(register_module("norm1", nn::BatchNorm2d(out))),
        second(register_module("second", nn::Conv2d(nn::Conv2dOptions(out, out, 3).padding(1).bias(false)))),
        norm2(register_module("norm2", nn::BatchNorm2d(out))) {
    if (stride != 1)
      shorter = register_module("shorter", nn::Conv2d(nn::Conv2dOptions(in, out, 1).stride(stride).bias(false)));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = norm2(second(norm1(first(x)).relu_()));
    return (y + (shorter.is_empty() ? x : shorter(x))).relu_();
  }
  nn::Conv2d first;
  nn::BatchNorm2d norm1;
  nn::Conv2d second;
  nn::BatchNorm2d norm2;
  nn::Conv2d shorter{nullptr};
};
TORCH_MODULE(ResidualBlock);

struct ResNet : nn::Module {
  explicit ResNet(int64_t width = 4)
      : stem(register_module("stem", nn::Conv2d(nn::Conv2dOptions(3, width, 3).padding(1).bias(false)))),
        norm(register_module("norm", nn::BatchNorm2d(width))),
        blocks(register_module(
            "blocks", nn::Sequential(ResidualBlock(width, width, 1), ResidualBlock(width, width, 1),
                                     ResidualBlock(width, 2 * width, 2), ResidualBlock(2 * width, 2 * width, 1)))),
        classes(register_module("classes", nn::Linear(2 * width, 10))) {}
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = blocks->forward(norm(stem(x)).relu_());
    return classes(at::adaptive_avg_pool2d(y, {1, 1}).flatten(1));
  }
  nn::Conv2d stem;
  nn::BatchNorm2d norm;
  nn::Sequential blocks;
  nn::Linear classes;
};

constexpr int64_t kWords = 200, kHidden = 24, kHeads = 6;
std::shared_ptr<example::DecoderImpl> decoder() {
  return filled(std::make_shared<example::DecoderImpl>(
      example::DecoderOptions{kWords, /*layers=*/2, kHidden, kHeads, /*dropout=*/0}));
}
at::Tensor ids() {
  return (at::arange(4 * 8) * 7).remainder(kWords).view({4, 8});
}
at::Tensor pictures(int64_t channels) {
  return (at::arange(2 * channels * 16 * 12, at::kDouble) * 0.3).sin().view({2, channels, 16, 12});
}
const std::vector<std::pair<std::string, CutText>> kMegatron{
    {"embedding.*", "words over tp"},
    {"blocks.*.attention.qkv.*", "outputs over tp in 3 parts by 4"},
    {"blocks.*.attention.out.*", "inputs over tp by 4"},
    {"blocks.*.up.*", "outputs over tp"},
    {"blocks.*.down.*", "inputs over tp"}};
template <class Module>
struct Trial {
  std::function<std::shared_ptr<Module>()> make;
  at::Tensor input;
  std::vector<GridShape::Axis> axes;
  AutomaticOptions options;
  Cuts by_hand;
};
/// Automatic cuts cost no more than those by hand, and move no more.
template <class Module>
void expect_no_more_than_by_hand(const Trial<Module>& trial) {
  const auto module = trial.make();
  CutSearch search(
      tensors_of(*module), GridShape(trial.axes), {trial.input}, [&] { module->forward(trial.input); }, trial.options);
  const Cuts found = search.best();
  SCOPED_TRACE(to_string(found) + GridShape(trial.axes).to_string());
  const auto cost = search.cost(found), by_hand = search.cost(trial.by_hand);
  EXPECT_LE(cost.total, by_hand.total * (1 + 1e-9));
  EXPECT_LE(cost.moved, by_hand.moved * (1 + 1e-9));
}

/// The loss and the gradients are those of one worker.
template <class Module>
void expect_as_on_one_worker(const Trial<Module>& trial, const Communicator& world) {
  const auto plain = trial.make(), module = trial.make();
  const Grid grid(world, trial.axes);
  const Cuts cuts = automatic(module, grid.shape(), trial.options, trial.input);
  SCOPED_TRACE(to_string(cuts) + grid.shape().to_string());
  auto model = distribute(module, grid, cuts);
  const at::Tensor scores = plain->forward(trial.input);
  const at::Tensor weights = (at::arange(scores.numel(), at::kDouble) * 0.7).cos().view(scores.sizes());
  const at::Tensor expected = (scores * weights).mean(), loss = (model.forward({}, trial.input) * weights).mean();
  EXPECT_LT(largest_error(whole(loss), expected), 1e-12);
  expected.backward();
  loss.backward();
  for (const auto& item : module->named_parameters())
    EXPECT_LT(largest_error(whole(item.value().grad()), plain->named_parameters()[item.key()].grad()), 1e-12)
        << item.key();
  for (const auto& item : module->named_buffers())
    EXPECT_LT(largest_error(whole(item.value()), plain->named_buffers()[item.key()]), 1e-12) << item.key();
}

Trial<example::DecoderImpl> of_decoder(int tp, int dp = 1) {
  return {decoder,
          ids(),
          {{"dp", dp}, {"tp", tp}},
          {.inputs = {{"samples over dp"}}, .weights_over = {"tp"}},
          {kMegatron, {"samples over dp"}}};
}
Trial<UNet> of_unet(int workers) {
  return {[] { return filled(std::make_shared<UNet>()); },
          pictures(1),
          {{"x", workers}},
          {.inputs = {{"", "dim 2 over x"}}},
          {{}, {"dim 2 over x"}}};
}
Trial<ResNet> of_resnet(int workers) {
  return {[] { return filled(std::make_shared<ResNet>()); },
          pictures(3),
          {{"x", workers}},
          {.inputs = {{"", "dim 2 over x", "samples over x"}}},
          {{}, {workers == 2 ? "samples over x" : "dim 2 over x"}}};
}

TEST(Automatic, finds_pairs_heads_and_the_vocabulary_of_a_transformer) {
  const auto module = decoder();
  const Cuts cuts = automatic(module, GridShape({{"dp", 2}, {"tp", 2}}),
                              {.inputs = {{"samples over dp"}}, .weights_over = {"tp"}}, ids());
  EXPECT_EQ(to_string(cuts), R"({.weights = {{"embedding.*", "words over tp"},
             {"blocks.*.attention.qkv.*", "outputs over tp in 3 parts by 4"},
             {"blocks.*.attention.out.*", "inputs over tp by 4"},
             {"blocks.*.up.*", "outputs over tp"},
             {"blocks.*.down.*", "inputs over tp"}},
 .inputs = {"samples over dp"}}
)");
}

TEST(Automatic, moves_no_more_than_cuts_by_hand) {
  for (const int workers : {2, 3, 4, 8}) {
    expect_no_more_than_by_hand(of_decoder(workers));
    expect_no_more_than_by_hand(of_decoder(workers, 2));
    expect_no_more_than_by_hand(of_unet(workers));
    expect_no_more_than_by_hand(of_resnet(workers));
  }
}

TEST(Automatic, cuts_train_as_one_worker_does) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    expect_as_on_one_worker(of_decoder(world.size()), world);
    if (world.size() % 2 == 0) expect_as_on_one_worker(of_decoder(world.size() / 2, 2), world);
    expect_as_on_one_worker(of_unet(world.size()), world);
    expect_as_on_one_worker(of_resnet(world.size()), world);
  });
}

/// The bytes that a worker sends in collectives of the whole world, an all-reduce as a reduce-scatter and an all-gather.
struct Traffic : Observer {
  explicit Traffic(int workers) : of_others((workers - 1) / static_cast<double>(workers)) {}
  void begin(const Call& call) override {
    for (const Message& message : call.messages)
      if (message.is_send()) bytes += static_cast<double>(message.buffer.bytes());
    ++calls;
    const int times = !call.collective ? 0 : call.collective == Collective::all_reduce ? 2 : 1;
    bytes += times * of_others * static_cast<double>(std::max(call.in.bytes(), call.out.bytes()));
  }
  const double of_others;
  double bytes = 0, calls = 0;
};

TEST(Automatic, estimates_what_is_sent_and_sends_no_more_than_cuts_by_hand) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    const auto trial = of_decoder(world.size());
    const auto original = trial.make();
    CutSearch search(
        tensors_of(*original), GridShape(trial.axes), {ids()}, [&] { original->forward(ids()); }, trial.options);
    const auto bytes_of_step = [&](const Cuts& cuts) {
      const auto traffic = std::make_shared<Traffic>(world.size());
      const auto module = trial.make();
      auto model = distribute(module, Grid(world.observed_by(traffic), trial.axes), cuts);
      traffic->bytes = 0;
      model.forward({}, ids()).sum().backward();
      const double of_checks = world.checked() ? 16 * traffic->calls : 0;
      EXPECT_NEAR(search.cost(cuts).moved, traffic->bytes, 1e-3 * traffic->bytes + of_checks) << to_string(cuts);
      return traffic->bytes;
    };
    EXPECT_LE(bytes_of_step(search.best()), bytes_of_step(trial.by_hand));
    bytes_of_step({});
  });
}

// ---- against all cuts of a few weights

struct Mlp : nn::Module {
  Mlp()
      : a(register_module("a", nn::Linear(12, 30))),
        b(register_module("b", nn::Linear(30, 8))),
        c(register_module("c", nn::Linear(8, 40))) {}
  at::Tensor forward(const at::Tensor& x) { return c(at::gelu(b(a(x).relu()))).sum(); }
  nn::Linear a, b, c;
};
struct Attention : nn::Module {
  Attention()
      : q(register_module("q", nn::Linear(24, 24))),
        k(register_module("k", nn::Linear(24, 24))),
        v(register_module("v", nn::Linear(24, 24))),
        out(register_module("out", nn::Linear(24, 24))),
        norm(register_module("norm", nn::LayerNorm(nn::LayerNormOptions({24})))) {}
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = norm(x);
    const auto heads = [](const at::Tensor& t) { return t.view({t.size(0), t.size(1), 6, 4}).transpose(1, 2); };
    const at::Tensor z = at::scaled_dot_product_attention(heads(q(y)), heads(k(y)), heads(v(y)));
    return x + out(z.transpose(1, 2).flatten(2));
  }
  nn::Linear q, k, v, out;
  nn::LayerNorm norm;
};
struct Branches : nn::Module {
  Branches()
      : first(register_module("first", nn::Linear(16, 16))),
        left(register_module("left", nn::Linear(16, 32))),
        right(register_module("right", nn::Linear(16, 32))),
        joined(register_module("joined", nn::Linear(64, 16))) {}
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = first(x).tanh();
    return x + first(joined(at::cat({left(y), right(y).relu()}, -1)));
  }
  nn::Linear first, left, right, joined;
};
struct Words : nn::Module {
  Words()
      : words(register_module("words", nn::Embedding(100, 16))), inner(register_module("inner", nn::Linear(16, 16))) {}
  at::Tensor forward(const at::Tensor& x) { return at::linear(inner(words(x)), words->weight); }
  nn::Embedding words;
  nn::Linear inner;
};
struct Convolutions : nn::Module {
  Convolutions()
      : a(register_module("a", nn::Conv2d(nn::Conv2dOptions(3, 8, 3).padding(1)))),
        norm(register_module("norm", nn::BatchNorm2d(8))),
        b(register_module("b", nn::Conv2d(nn::Conv2dOptions(8, 4, 3).padding(1)))) {}
  at::Tensor forward(const at::Tensor& x) { return b(norm(a(x)).relu_()); }
  nn::Conv2d a;
  nn::BatchNorm2d norm;
  nn::Conv2d b;
};

template <class Module>
void expect_least_of_all(const at::Tensor& input, const std::vector<std::string>& layers,
                         const std::vector<CutText>& texts, const std::vector<CutText>& inputs = {""}) {
  for (const int workers : {2, 3}) {
    const auto module = filled(std::make_shared<Module>());
    CutSearch search(tensors_of(*module), GridShape({{"tp", workers}}), {input}, [&] { module->forward(input); },
                     {.inputs = {inputs}});
    const Cuts found = search.best();
    double least = std::numeric_limits<double>::infinity();
    Cuts best;
    size_t combinations = 1;
    for (size_t i = 0; i < layers.size(); ++i) combinations *= texts.size();
    for (const CutText& of_input : inputs)
      for (size_t combination = 0; combination < combinations; ++combination) {
        Cuts cuts;
        if (!of_input.empty()) cuts.inputs = {of_input};
        for (size_t i = 0, rest = combination; i < layers.size(); ++i, rest /= texts.size())
          cuts.weights.emplace_back(layers[i] + ".*", texts[rest % texts.size()]);
        double cost = least;
        try {
          cost = search.cost(cuts).total;
        } catch (const InvalidArgument&) {  // refused
        }
        if (cost >= least) continue;
        least = cost;
        best = cuts;
      }
    EXPECT_LE(search.cost(found).total, least * (1 + 1e-9)) << to_string(found) << to_string(best);
  }
}

TEST(Automatic, finds_the_least_of_all_cuts_of_a_few_weights) {
  const at::Tensor rows = at::zeros({3, 5, 24}, at::kDouble);
  const std::vector<CutText> texts{"", "outputs over tp", "inputs over tp"};
  expect_least_of_all<Mlp>(at::zeros({9, 12}, at::kDouble), {"a", "b", "c"}, texts, {"", "samples over tp"});
  expect_least_of_all<Attention>(rows, {"q", "k", "v", "out", "norm"},
                                 {"", "outputs over tp by 4", "inputs over tp by 4"},
                                 {"", "samples over tp", "tokens over tp"});
  expect_least_of_all<Branches>(at::zeros({7, 16}, at::kDouble), {"first", "left", "right", "joined"}, texts);
  expect_least_of_all<Words>(at::arange(12).view({3, 4}), {"words", "inner"}, texts, {"", "samples over tp"});
  expect_least_of_all<Convolutions>(pictures(3), {"a", "norm", "b"}, texts, {"", "dim 2 over tp", "samples over tp"});
}

TEST(Automatic, leaves_the_module_as_it_is) {
  const auto module = filled(std::make_shared<UNet>()), same = filled(std::make_shared<UNet>());
  automatic(module, GridShape({{"x", 4}}), {.inputs = {{"", "dim 2 over x"}}}, pictures(1));
  for (const auto& item : module->named_parameters()) {
    EXPECT_FALSE(is_intercepted(item.value()));
    EXPECT_TRUE(item.value().equal(same->named_parameters()[item.key()]));
  }
  for (const auto& item : module->named_buffers()) EXPECT_TRUE(item.value().equal(same->named_buffers()[item.key()]));
  EXPECT_TRUE(module->forward(pictures(1)).equal(same->forward(pictures(1))));
  const auto numbers = [] { return at::globalContext().defaultGenerator(at::kCPU).get_state(); };
  const auto drops = std::make_shared<example::DecoderImpl>(example::DecoderOptions{kWords, 1, kHidden, kHeads});
  const at::Tensor before = numbers();
  automatic(drops, GridShape({{"x", 4}}), {}, ids());
  EXPECT_TRUE(numbers().equal(before));
}

TEST(Automatic, takes_the_cost_of_a_move) {
  const auto module = decoder();
  const GridShape grid({{"tp", 2}});
  const AutomaticOptions free{.move = [](const Layout&, const Layout&, int64_t) { return 0; }};
  CutSearch search(tensors_of(*module), grid, {ids()}, [&] { module->forward(ids()); });
  const auto usual = search.cost(search.best()), of_free_moves = search.cost(automatic(module, grid, free, ids()));
  EXPECT_GT(of_free_moves.moved, usual.moved);
  EXPECT_LT(of_free_moves.computed, usual.computed);
}

TEST(Automatic, says_what_it_cannot_do) {
  const GridShape grid({{"tp", 2}});
  const auto module = decoder();
  EXPECT_THAT(thrown_by<InvalidArgument>([&] {
                automatic(module, grid, {}, at::zeros({2, 3}, at::kDouble));
              }),
              HasSubstr("a module that computes the example"));
  EXPECT_THAT(
      thrown_by<InvalidArgument>([&] { automatic(module, GridShape(std::vector<GridShape::Axis>{}), {}, ids()); }),
      HasSubstr("a grid with an axis"));
  EXPECT_THAT(thrown_by<InvalidArgument>([&] { automatic(module, grid, {.weights_over = {"dp"}}, ids()); }),
              HasSubstr("dp"));
  EXPECT_THAT(thrown_by<InvalidArgument>([&] {
                automatic(module, grid, {.inputs = {{""}, {""}}}, ids());
              }),
              HasSubstr("at most the 1 inputs"));
  const Grid one(Communicator(), {{"tp", 1}});
  const at::Tensor x = global({ids(), Layout(one.shape(), {4, 8}), one});
  EXPECT_THAT(thrown_by<InvalidArgument>([&] { automatic(module, grid, {}, x); }),
              HasSubstr("input 0, which is global"));
  const auto other = decoder();
  distribute(other, one, {});
  EXPECT_THAT(thrown_by<InvalidArgument>([&] { automatic(other, grid, {}, ids()); }),
              HasSubstr("embedding.weight, which is global"));
}

}  // namespace
}  // namespace adjoin::parallel::automatic_cuts
