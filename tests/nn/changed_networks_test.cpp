#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "adjoin/movement/check_gradients.hpp"
#include "adjoin/movement/forward_record.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/nn/distributed/class_loss.hpp"
#include "adjoin/nn/init.hpp"
#include "adjoin/nn/linear.hpp"
#include "adjoin/nn/sequence/dot_product_attention.hpp"
#include "adjoin/parallel/gradients.hpp"
#include "examples/networks/lenet5.hpp"
#include "examples/networks/plate.hpp"
#include "examples/networks/resnet.hpp"
#include "examples/networks/unet.hpp"
#include "examples/networks/vgg.hpp"
#include "tests/support/changed_movements.hpp"

// The networks of the examples, with fewer features. Those of data_parallel, sharded and pipeline have no movement: their gradients
// are summed when backward has made them.
namespace adjoin {
namespace {

using namespace adjoin::testing;
using Known = std::vector<KnownTensor>;

at::Tensor waves(const std::vector<int64_t>& shape) {
  const int64_t count = c10::multiply_integers(shape);
  return (at::arange(count, at::kDouble) * 1.7).sin().view(shape);
}

void fill(const torch::nn::Module& net) {
  for (const nn::Parameter& parameter : nn::parameters_of(net)) {
    if (!parameter.tensor.requires_grad()) continue;  // a count
    if (parameter.layout.dims() > 1)
      nn::init::xavier_normal_(parameter, /*seed=*/1);
    else
      nn::init::uniform_(parameter, /*seed=*/1, 0.5, 1);
  }
}

/// Of a module's parameters after a loss that each worker begins backward from: `kinds` says what it is.
Gradients gradients_of(const torch::nn::Module& net, const at::Tensor& loss, const Grid& grid,
                       const std::map<std::string, Kind>& kinds, const Trial& trial, const Known& inputs = {}) {
  if (trial.checks) check_gradients(loss, nn::known_tensors(nn::parameters_of(net)), inputs, grid, kinds);
  loss.backward();
  parallel::sum_gradients(net);
  Gradients gradients{.of_parameters = {}, .loss = loss.detach()};
  for (const at::Tensor& parameter : net.parameters())
    gradients.of_parameters.push_back(parameter.grad().defined() ? parameter.grad() : at::zeros_like(parameter));
  return gradients;
}

/// Of a network of pictures; `kinds` of the loss are those of its layout.
Gradients of_pictures(torch::nn::Module& net, const std::function<DistributedTensor()>& scores,
                      const at::Tensor& labels, const Layout& layout, const Grid& grid, const Trial& trial) {
  fill(net);
  nn::CrossEntropyLoss cross_entropy(grid);
  const DistributedTensor target = place(labels, layout, grid);
  const ForwardRecord notes;
  const ReplacedMovements replaced(trial.replace);
  const DistributedTensor loss = cross_entropy(scores(), target);
  return gradients_of(net, loss.local.sum(), loss.grid, loss.layout.kinds(), trial, {known_tensor("labels", target)});
}

struct Network {
  std::string name;
  int ranks;
  GradientsOf gradients;
  bool quick = false;
  int64_t missed = 0;  // as docs/gradient-convention.md explains
};

Gradients of_mlp(const Communicator& world, const Trial& trial) {
  const Grid grid(world, {{"tp", world.size()}});
  nn::ColRow mlp(nn::ColRowOptions{.in_features = 1, .hidden_features = 6, .out_features = 1, .tensor = at::kDouble},
                 grid, "tp");
  fill(*mlp);
  const ForwardRecord notes;
  const ReplacedMovements replaced(trial.replace);
  const at::Tensor x = at::linspace(-3, 3, 12, at::kDouble).unsqueeze(1), y = x.sin();
  const at::Tensor loss = at::mse_loss(mlp(x, ForwardPass{{.number = 1, .training = true}}), y);
  return gradients_of(*mlp, loss, grid, {{"tp", Kind::replicated}}, trial,
                      {{"x", x, std::map<std::string, Kind>{{"tp", Kind::replicated}}}});
}

Gradients of_heat(const Communicator& world, const Trial& trial) {
  const auto [rows, columns] = example::nearly_square(world.size());
  const Grid grid(world, {{"y", rows}, {"x", columns}});
  const example::Plate plate(grid);
  const at::Tensor begin = plate.piece_of(waves({example::Plate::kRows, example::Plate::kColumns})).requires_grad_();
  const ReplacedMovements replaced(trial.replace);
  const at::Tensor misfit = plate.after(3, begin).square().sum();
  if (trial.checks)
    check_gradients(misfit, {}, {{"begin", begin, plate.layout(), world}}, grid,
                    {{"y", Kind::partial}, {"x", Kind::partial}});
  misfit.backward();
  return {{begin.grad()}, misfit.detach()};
}

Gradients of_attention(const Communicator& world, const Trial& trial) {
  constexpr int64_t kLength = 7;
  const Grid grid(world, {{"sp", world.size()}});
  nn::DistributedDotProductAttention attention(
      nn::DotProductAttentionOptions{
          .key_dim = 8, .value_dim = 4, .query_dim = 4, .num_heads = 2, .tensor = at::kDouble},
      grid, "sp");
  fill(*attention);
  const Split rows = Split::balanced(kLength, world.size(), /*dim=*/1);
  const auto mine = [&](const at::Tensor& whole) { return take_block(whole, rows, world.rank()).clone(); };
  const at::Tensor keys = mine(waves({1, kLength, 8})), queries = mine(waves({1, kLength, 4}));
  const ReplacedMovements replaced(trial.replace);
  const at::Tensor loss =
      attention(keys, queries, queries, mine(at::ones({1, kLength, kLength}, at::kBool).triu(1)), rows).square().sum();
  const auto split = [](const char* name, const at::Tensor& x) {
    return KnownTensor{name, x, std::map<std::string, Kind>{{"sp", Kind::split}}};
  };
  return gradients_of(*attention, loss, grid, {{"sp", Kind::partial}}, trial,
                      {split("keys", keys), split("queries", queries)});
}

Gradients of_lenet5(const Communicator& world, const Trial& trial) {
  const example::Grids grids(world);
  nn::Sequential net = example::lenet5(grids, at::kDouble);
  const nn::LayoutRule over_space = nn::balanced_over(grids.space.shape(), {{}, {}, {"y"}, {"x"}});
  const at::Tensor pictures = waves({3, 1, 28, 28}), labels = at::arange(3);
  const DistributedTensor x = place(pictures, over_space(pictures.sizes().vec()), grids.space);
  return of_pictures(
      *net, [&] { return net(x); }, labels, Layout(grids.features.shape(), {3}), grids.features, trial);
}

nn::NetworkPlacement over_space(const Communicator& world) {
  const auto [height, width] = example::nearly_square(world.size());
  return {.grid = Grid(world, {{"y", height}, {"x", width}}), .space = {{"y"}, {"x"}}};
}
nn::NetworkPlacement over_channels(const Communicator& world) {
  return {.grid = Grid(world, {{"c", world.size()}}), .channels = {"c"}};
}

Gradients of_classifier(nn::Sequential net, const std::vector<int64_t>& shape, const nn::NetworkPlacement& on,
                        const Trial& trial) {
  const DistributedTensor x = place(waves(shape), on.of_space(shape, 2), on.grid);
  return of_pictures(
      *net, [&] { return net(x); }, at::arange(shape[0]), Layout(on.grid.shape(), {shape[0]}), on.grid, trial);
}

Gradients of_unet(const Communicator& world, const Trial& trial) {
  const nn::NetworkPlacement on = over_space(world);
  example::UNet net(on, /*classes=*/3, /*width=*/2);
  net->to(at::kDouble);
  const std::vector<int64_t> shape{2, 1, 12, 20};
  const DistributedTensor x = place(waves(shape), on.of_space(shape, 2), on.grid);
  const Layout classes = nn::balanced_over(on.grid.shape(), {{}, {"y"}, {"x"}})({2, 12, 20});
  return of_pictures(
      *net, [&] { return net(x); }, (at::arange(2 * 12 * 20) % 3).view({2, 12, 20}), classes, on.grid, trial);
}

const std::vector<Network>& networks() {
  constexpr int64_t kClasses = 3, kWidth = 2, kFeatures = 6;
  using Placing = nn::NetworkPlacement (*)(const Communicator&);
  const auto vgg = [](Placing placed) {
    return [=](const Communicator& world, const Trial& trial) {
      const nn::NetworkPlacement on = placed(world);
      return of_classifier(nn::distributed(example::vgg11(kClasses, kWidth, kFeatures), on), {2, 3, 37, 35}, on, trial);
    };
  };
  const auto resnet = [](Placing placed) {
    return [=](const Communicator& world, const Trial& trial) {
      const nn::NetworkPlacement on = placed(world);
      return of_classifier(example::resnet18(on, kClasses, kWidth), {2, 3, 33, 33}, on, trial);
    };
  };
  static const std::vector<Network> all = {{"tensor_parallel_mlp", 3, of_mlp, true},
                                           {"heat", 4, of_heat, true},
                                           {"attention", 3, of_attention, true},
                                           {"lenet5", 4, of_lenet5, true},
                                           {"unet", 4, of_unet, false, 6},
                                           {"vgg over space", 4, vgg(over_space), false, 2},
                                           {"vgg over channels", 2, vgg(over_channels)},
                                           {"resnet over space", 4, resnet(over_space), false, 2},
                                           {"resnet over channels", 2, resnet(over_channels)}};
  return all;
}

TEST(ChangedNetworks, of_the_examples_are_refused) {
  const bool is_deep = std::getenv("ADJOIN_TEST_SCALE") != nullptr;
  int64_t wrong = 0;
  for (const Network& network : networks()) {
    if (!is_deep && !network.quick) continue;
    ChangesTried of_network;
    try_changes(network.name, network.gradients, {.ranks = network.ranks}, {&of_network, 1});
    of_network.report(network.name);
    EXPECT_EQ(of_network.refused, of_network.wrong - network.missed) << network.name;
    wrong += of_network.wrong;
  }
  EXPECT_GT(wrong, 20);
}

}  // namespace
}  // namespace adjoin
