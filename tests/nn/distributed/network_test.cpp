#include "adjoin/nn/distributed/network.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules.h>

#include "tests/support/adjoint.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/layers.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

namespace t = torch::nn;
using namespace adjoin::testing;

using Block = InnerSequential;

/// The axes of a placement, and how many workers each has in a world of 1 to 4.
struct Cuts {
  std::vector<std::string> batch, channels;
  std::vector<std::vector<std::string>> space;
  std::vector<std::vector<int>> sizes;  // of axes "a" and "b", for each world

  NetworkPlacement on(const Communicator& world) const {
    const std::vector<int>& size = sizes[static_cast<size_t>(world.size() - 1)];
    return {Grid(world, {{"a", size[0]}, {"b", size[1]}}), batch, channels, space};
  }
};

std::vector<Cuts> all_cuts() {
  const std::vector<std::vector<int>> even{{1, 1}, {1, 2}, {3, 1}, {2, 2}}, other{{1, 1}, {2, 1}, {1, 3}, {2, 2}};
  return {{{}, {}, {{"a"}, {"b"}}, even},
          {{}, {}, {{}, {"b", "a"}}, other},
          {{"a"}, {"b"}, {}, even},
          {{}, {"a"}, {{"b"}}, other},
          {{"b"}, {}, {{"a"}}, even}};
}

/// Output, every gradient, running statistics, and all of them after a step of SGD are those of the model on one worker.
void expect_same_as_model(const t::Sequential& shared, const at::Tensor& input, const Cuts& cuts,
                          const Communicator& world) {
  const NetworkPlacement placement = cuts.on(world);
  t::Sequential model(std::dynamic_pointer_cast<t::SequentialImpl>(shared->clone()));
  Sequential net = distributed(model, placement);
  expect_twin_parameters(*net, *model, /*gradients=*/false);

  const Layout layout = input.dim() > 2 ? placement.of_space(input.sizes().vec(), static_cast<size_t>(input.dim()) - 2)
                                        : placement.of_features(input.sizes().vec());
  DistributedTensor x = testing::laid_out(input, layout, placement.grid);
  const at::Tensor x1 = input.clone();
  const bool has_gradient = at::isFloatingType(input.scalar_type());
  if (has_gradient) {
    x.local.requires_grad_(true);
    x1.requires_grad_(true);
  }
  const DistributedTensor y = net(x);
  const at::Tensor y1 = model->forward(x1);
  ASSERT_EQ(y.layout.shape(), y1.sizes().vec());
  expect_close(whole(y).detach(), y1.detach(), "output");
  backward_from_both(y, y1);
  if (has_gradient) expect_close(whole_gradient(x), x1.grad(), "gradient of the input");
  parallel::sum_gradients(*net);
  expect_twin_parameters(*net, *model, /*gradients=*/true);
  torch::optim::SGD(net->parameters(), 0.1).step();
  torch::optim::SGD(model->parameters(), 0.1).step();
  expect_twin_parameters(*net, *model, /*gradients=*/false);
}

/// Numbers that are the same on all workers, in threads and processes.
at::Tensor numbers(at::IntArrayRef shape, int64_t seed = 5) {
  return random_tensor(shape, Kind::replicated, Communicator(), seed);
}

/// A model in float64 with weights that are the same on all workers: LibTorch's own differ between processes.
t::Sequential with_numbers(t::Sequential model) {
  model->to(at::kDouble);
  const at::NoGradGuard no_gradient;
  int64_t seed = 100;
  for (const at::Tensor& parameter : model->parameters()) parameter.copy_(numbers(parameter.sizes(), seed++));
  return model;
}

void expect_same_everywhere(const t::Sequential& made, const at::Tensor& input) {
  const t::Sequential model = with_numbers(made);
  const std::vector<Cuts> cuts = all_cuts();
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    for (size_t i = 0; i < (world.size() > 1 ? cuts.size() : 1); ++i) {  // one worker has nothing to cut
      SCOPED_TRACE("cut " + std::to_string(i));
      expect_same_as_model(model, input, cuts[i], world);
    }
  });
}

TEST(DistributedNetwork, of_convolutions_pools_and_norms_equals_the_model) {
  expect_same_everywhere(
      t::Sequential(t::Conv2d(t::Conv2dOptions(3, 6, 3).padding(1)), t::BatchNorm2d(6), t::ReLU(t::ReLUOptions(true)),
                    t::MaxPool2d(2), t::Conv2d(t::Conv2dOptions(6, 4, 3).stride(2).padding(1).groups(2)),
                    t::GroupNorm(t::GroupNormOptions(2, 4)), t::GELU(), t::AvgPool2d(t::AvgPool2dOptions(2).stride(1)),
                    t::Flatten(), t::Linear(16, 11), t::LayerNorm(t::LayerNormOptions({11})), t::Tanh(),
                    t::Linear(t::LinearOptions(11, 12).bias(false)), t::Softplus()),
      numbers({3, 3, 13, 11}));
}

TEST(DistributedNetwork, of_sequences_within_sequences_equals_the_model) {
  const Block again(t::Conv2d(t::Conv2dOptions(5, 5, 3).padding(1)), t::SiLU());  // stands in two places
  expect_same_everywhere(
      t::Sequential(
          Block(t::Conv2d(t::Conv2dOptions(2, 5, 2)),
                Block(t::InstanceNorm2d(t::InstanceNorm2dOptions(5).affine(true)), t::ELU())),
          again,
          t::Upsample(
              t::UpsampleOptions().scale_factor(std::vector<double>{2, 2}).mode(torch::kBilinear).align_corners(false)),
          again, t::ConvTranspose2d(t::ConvTranspose2dOptions(5, 3, 3).stride(2).output_padding(1)), t::LeakyReLU(),
          t::AdaptiveAvgPool2d(t::AdaptiveAvgPool2dOptions({3, 2})), t::Identity(), t::Flatten(), t::Sigmoid()),
      numbers({2, 2, 6, 5}));
}

TEST(DistributedNetwork, of_paddings_crops_and_softmax_equals_the_model) {
  expect_same_everywhere(
      t::Sequential(t::ZeroPad2d(t::ZeroPad2dOptions({2, 1, 0, 3})), t::Conv2d(2, 5, 3), t::Softmax2d(),
                    t::ReflectionPad2d(t::ReflectionPad2dOptions(2)),
                    t::ZeroPad2d(t::ZeroPad2dOptions({-3, -1, -2, 1})), t::Softmin(2),
                    t::ConstantPad2d(t::ConstantPad2dOptions({-1, 2, 1, -1}, 0.5)),
                    t::ReplicationPad2d(t::ReplicationPad2dOptions({0, 2, 1, 0})), t::Flatten(), t::Softmax(1)),
      numbers({3, 2, 7, 6}));
  expect_same_everywhere(t::Sequential(t::ReplicationPad1d(2), t::Conv1d(3, 4, 2), t::LogSoftmax(-2),
                                       t::ZeroPad1d(t::ZeroPad1dOptions({-2, -1}))),
                         numbers({4, 3, 9}));
}

TEST(DistributedNetwork, over_time_and_of_words_equals_the_model) {
  expect_same_everywhere(t::Sequential(t::Conv1d(t::Conv1dOptions(3, 7, 3)), t::BatchNorm1d(7), t::Mish(),
                                       t::AdaptiveMaxPool1d(2), t::Flatten(), t::Linear(14, 5), t::BatchNorm1d(5)),
                         numbers({4, 3, 9}));
  expect_same_everywhere(t::Sequential(t::Embedding(9, 6), t::Flatten(), t::Linear(30, 4), t::LogSigmoid()),
                         at::arange(20).remainder(9).view({4, 5}));
}

TEST(DistributedNetwork, drops_the_same_elements_in_every_layout) {
  const t::Sequential model =
      with_numbers(t::Sequential(t::Conv2d(t::Conv2dOptions(2, 6, 3).padding(1)), t::Dropout2d(0.4),
                                 Block(t::Dropout(0.5), t::Flatten()), t::Linear(180, 20), t::Dropout(0.3)));
  const at::Tensor input = numbers({3, 2, 6, 5});
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    const auto output = [&](const NetworkPlacement& placement, bool is_training) {
      Sequential net = distributed(model, placement);
      net->train(is_training);
      DistributedTensor x = place(input, placement.of_space({3, 2, 6, 5}, 2), placement.grid);
      if (is_training) x.step = Step{.seed = 3, .number = 7, .training = true};
      return whole(net(x)).detach();
    };
    const NetworkPlacement alone{Grid(Communicator(), {{"one", 1}})};
    for (const Cuts& cuts : all_cuts()) expect_close(output(cuts.on(world), true), output(alone, true), "output");
    EXPECT_FALSE(output(alone, true).equal(output(alone, false)));
    t::Sequential in_evaluation(std::dynamic_pointer_cast<t::SequentialImpl>(model->clone()));
    in_evaluation->eval();
    expect_close(output(all_cuts()[0].on(world), false), in_evaluation->forward(input).detach(), "in evaluation");
  });
}

TEST(DistributedNetwork, has_the_mode_the_frozen_weights_and_the_weights_of_worker_0) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    t::Sequential model(t::Linear(3, 4), Block(t::BatchNorm1d(4)));
    const at::NoGradGuard no_gradient;
    for (const at::Tensor& tensor : model->parameters()) tensor.fill_(world.rank() + 1);
    model->named_parameters()["0.weight"].set_requires_grad(false);
    model->ptr(1)->eval();
    Sequential net = distributed(model, {Grid(world, {{"rows", world.size()}}), {"rows"}});
    EXPECT_TRUE(net->is_training());
    EXPECT_FALSE(net->ptr(1)->is_training());
    EXPECT_FALSE(net->named_children()["1"]->named_children()["0"]->is_training());
    for (const Parameter& p : parameters_of(*net)) {
      if (p.is_buffer) continue;
      EXPECT_EQ(p.tensor.requires_grad(), p.name != "0.weight") << p.name;
      EXPECT_TRUE(p.tensor.equal(at::ones_like(p.tensor))) << p.name;
    }
  });
}

struct Squared : t::Module {
  at::Tensor forward(const at::Tensor& x) { return x.square(); }
};
struct ResidualImpl : t::SequentialImpl {
  using t::SequentialImpl::SequentialImpl;
  at::Tensor forward(const at::Tensor& x) { return x + t::SequentialImpl::forward(x); }
};
struct OtherReLUImpl : t::ReLUImpl {};

TEST(DistributedNetwork, refuses_what_it_does_not_know_by_name_and_place) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const NetworkPlacement placement{Grid(world, {{"y", world.size()}}), {}, {}, {{"y"}}};
    const auto refusal = [&](const t::Sequential& model) {
      return thrown_by<InvalidArgument>([&] { distributed(model, placement); });
    };
    EXPECT_EQ(refusal(t::Sequential(t::ReLU(), Block(t::Tanh(), t::Bilinear(2, 3, 4)))),
              "distributed: layer '1.1' is a torch::nn::BilinearImpl, which has no distributed twin");
    EXPECT_EQ(
        refusal(t::Sequential({{"first", t::AnyModule(std::make_shared<Squared>())}})),
        "distributed: layer 'first' is a adjoin::nn::(anonymous namespace)::Squared, which has no distributed twin");
    EXPECT_EQ(
        refusal(t::Sequential(std::make_shared<OtherReLUImpl>())),
        "distributed: layer '0' is a adjoin::nn::(anonymous namespace)::OtherReLUImpl, which has no distributed twin");
    EXPECT_EQ(
        refusal(t::Sequential(t::ReLU(), std::make_shared<ResidualImpl>(t::Linear(2, 2)))),
        "distributed: layer '1' is a adjoin::nn::(anonymous namespace)::ResidualImpl, whose forward may be its own; "
        "expected a torch::nn::Sequential, or within another an adjoin::nn::InnerSequential");
    EXPECT_EQ(thrown_by<InvalidArgument>([&] { distributed(ResidualImpl(t::Linear(2, 2)), placement); }),
              "distributed: the model is a adjoin::nn::(anonymous namespace)::ResidualImpl, whose forward may be its "
              "own; expected a torch::nn::Sequential, or within another an adjoin::nn::InnerSequential");
    Block scaled{t::Linear(2, 2)};
    scaled->register_parameter("scale", at::ones({1}));
    EXPECT_EQ(refusal(t::Sequential(scaled)), "distributed: layer '0' holds more than a sequence of layers");
    t::Linear first(3, 3), second(3, 3);
    second->weight = first->weight;
    EXPECT_EQ(
        refusal(t::Sequential(first, second)),
        "distributed: layer '1': expected the layer's own weight, got a tensor that it may share with another layer");
  });
}

TEST(DistributedNetwork, refuses_weights_with_hooks_and_accepts_them_without) {
  for_each_world({1, 2}, [](const Communicator& world) {
    const NetworkPlacement placement{Grid(world, {{"rows", world.size()}}), {"rows"}};
    t::Sequential model(t::Tanh(), Block(t::Linear(2, 3)));
    const unsigned hook =
        model->named_parameters()["1.0.weight"].register_hook([](const at::Tensor& g) { return 2 * g; });
    EXPECT_EQ(thrown_by<InvalidArgument>([&] { distributed(model, placement); }),
              "distributed: layer '1.0': 'weight' has a hook, which its pieces would not call; register it after "
              "distributed");
    model->named_parameters()["1.0.weight"].remove_hook(hook);
    distributed(model, placement);
  });
}

TEST(DistributedNetwork, refuses_models_that_differ_between_workers) {
  for_each_world({2, 3}, [](const Communicator& world) {
    const NetworkPlacement placement{Grid(world, {{"y", world.size()}}), {}, {}, {{"y"}}};
    const bool is_odd = world.rank() == 1;
    const auto refusal = [&](const t::Sequential& model) {
      return thrown_by<InvalidArgument>([&] { distributed(model, placement); });
    };
    const std::string features = refusal(t::Sequential(t::Linear(3, is_odd ? 5 : 4)));
    EXPECT_NE(features.find("distributed: expected the same arguments on all ranks of the group, got from rank 0 on 0 "
                            "torch::nn::Linear(in_features=3, out_features=4, bias=true)"),
              std::string::npos)
        << features;
    t::Sequential longer{t::ReLU()}, frozen{t::Linear(3, 4)}, evaluates{t::Dropout(0.5)};
    if (is_odd) longer->push_back(t::Tanh());
    if (is_odd) frozen->parameters()[0].set_requires_grad(false);
    if (is_odd) evaluates->eval();
    for (const t::Sequential& model : {longer, frozen, evaluates})
      EXPECT_EQ(refusal(model).substr(0, 66), features.substr(0, 66));
  });
}

TEST(DistributedNetwork, refuses_axes_that_are_not_there_or_named_twice) {
  const Grid grid(Communicator(), {{"y", 1}});
  const t::Sequential model{t::ReLU()};
  EXPECT_EQ(thrown_by<InvalidArgument>([&] {
              distributed(model, {grid, {"y"}, {}, {{"y"}}});
            }),
            "distributed: axis 'y' is named twice, expected it to cut only one of batch, channels and space");
  EXPECT_NE(thrown_by<InvalidArgument>([&] { distributed(model, {grid, {"rows"}}); }), "");
}

TEST(Flatten, gathers_into_the_first_dim_and_refuses_dims_that_are_not_there) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    const Grid grid(world, {{"all", world.size()}});
    const at::Tensor x = numbers({2, 3, 4, 5});
    for (const auto& axes : {std::vector<std::vector<std::string>>{{"all"}}, {{}, {"all"}}, {{}, {}, {}, {"all"}}})
      for (const auto& [first, last] : {std::pair{0, -1}, {1, -1}, {1, 2}, {-2, 3}, {2, 2}}) {
        const Layout layout = balanced_over(grid.shape(), axes)(x.sizes().vec());
        DistributedTensor part = testing::laid_out(x, layout, grid);
        part.local.requires_grad_(true);
        const at::Tensor x1 = x.clone().requires_grad_(true), y1 = x1.flatten(first, last);
        const DistributedTensor y = Flatten(FlattenOptions().start_dim(first).end_dim(last), grid)(part);
        expect_close(whole(y).detach(), y1.detach(), "output");
        backward_from_both(y, y1);
        expect_close(whole_gradient(part), x1.grad(), "gradient");
      }
    const Layout whole_layout(grid.shape(), {2, 3});
    EXPECT_EQ(thrown_by<InvalidArgument>([&] {
                Flatten(FlattenOptions().start_dim(2), grid)(DistributedTensor{at::ones({2, 3}), whole_layout, grid});
              }),
              "Flatten: expected an input that has dims 2 to -1; the input is " + whole_layout.to_string());
  });
}

}  // namespace
}  // namespace adjoin::nn
