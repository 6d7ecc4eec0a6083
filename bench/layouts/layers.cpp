#include <ATen/ops/randn.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>
#include <torch/nn/modules/upsampling.h>

#include <functional>
#include <memory>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/batch_norm.hpp"
#include "adjoin/nn/distributed/conv.hpp"
#include "adjoin/nn/distributed/linear.hpp"
#include "adjoin/nn/distributed/network.hpp"
#include "adjoin/nn/distributed/pool.hpp"
#include "adjoin/nn/distributed/upsample.hpp"
#include "adjoin/parallel/gradients.hpp"
#include "bench/layouts/command.hpp"

namespace adjoin::bench {
namespace {

struct LayersOptions {
  SideBySideOptions run{.workers = {}, .times = 20};
  std::string cut = "height";                    // of the pictures, one of kCuts
  int64_t batch = 4, channels = 64, size = 256;  // of the pictures; their height equals their width
  int64_t rows = 1024, features = 4096;          // of the linear layer, whose weight is cut by outputs
};

constexpr std::string_view kCuts[] = {"batch", "channels", "height", "width"};
const std::vector<std::string> kLayers{"conv", "max-pool", "batch-norm", "upsample", "linear", "network"};

using Shape = std::vector<int64_t>;
using Axes = std::vector<std::vector<std::string>>;  // for each dim, the axes of the grid that cut it

/// A step's work with a layer: `call` gives this worker's part of the output, `finish` runs after backward.
Pass layer_pass(std::shared_ptr<torch::nn::Module> layer, at::Tensor x, std::function<at::Tensor()> call,
                std::function<void()> finish = {}) {
  x.requires_grad_();
  const auto y = std::make_shared<at::Tensor>();
  const auto gradient = std::make_shared<at::Tensor>();
  return {[=]() mutable {
            layer->zero_grad();
            x.mutable_grad().reset();
            *y = call();
          },
          [=] {
            if (!gradient->defined()) *gradient = at::randn(y->sizes());
            y->backward(*gradient);
            if (finish) finish();
          }};
}

template <class Layer>
Pass distributed_pass(Layer layer, const Layout& layout, const Grid& grid) {
  nn::initialize(*layer, /*seed=*/1);
  const DistributedTensor x{at::randn(layout.shape_on(grid.world().rank())), layout, grid};
  return layer_pass(
      layer.ptr(), x.local, [=]() mutable { return layer(x).local; },
      [=] { parallel::sum_gradients(nn::parameters_of(*layer)); });
}

template <class Layer>
Pass local_pass(Layer layer, const Shape& shape) {
  const at::Tensor x = at::randn(shape);
  return layer_pass(layer.ptr(), x, [=]() mutable { return layer->forward(x); });
}

/// One layer for torch::nn and for adjoin: its options, the shape of its input, and the layout on a grid with one axis "ranks".
struct Bench {
  Shape shape;
  std::function<Pass(const Layout& x, const Grid& grid)> distributed;
  std::function<Pass()> local;
};

template <class Ours, class Theirs, class LayersOptions>
Bench bench_of(const Shape& shape, const LayersOptions& options) {
  return {shape, [=](const Layout& x, const Grid& grid) { return distributed_pass(Ours(options, grid), x, grid); },
          [=] { return local_pass(Theirs(options), shape); }};
}

/// Column-parallel: every worker has the whole x, and makes its own features.
Bench linear_bench(const LayersOptions& options) {
  const torch::nn::LinearOptions linear(options.features, options.features);
  Bench bench = bench_of<nn::Linear, torch::nn::Linear>({options.rows, options.features}, linear);
  bench.distributed = [=](const Layout& x, const Grid& grid) {
    const nn::LayoutRule by_outputs = nn::balanced_over(grid.shape(), {{"ranks"}, {}});
    const nn::LayerLayouts placement{.weight = by_outputs({options.features, options.features})};
    return distributed_pass(nn::Linear(linear, placement, grid), x, grid);
  };
  return bench;
}

torch::nn::Conv2dOptions conv_options(const LayersOptions& options) {
  return torch::nn::Conv2dOptions(options.channels, options.channels, 3).padding(1);
}

/// 7 convolutions, 6 norms and ReLUs, and 3 poolings.
torch::nn::Sequential network_of(const LayersOptions& options) {
  torch::nn::Sequential network;
  for (int block = 0; block < 3; ++block) {
    for (int layer = 0; layer < 2; ++layer) {
      network->push_back(torch::nn::Conv2d(conv_options(options)));
      network->push_back(torch::nn::BatchNorm2d(options.channels));
      network->push_back(torch::nn::ReLU());
    }
    network->push_back(torch::nn::MaxPool2d(2));
  }
  network->push_back(torch::nn::Conv2d(conv_options(options)));
  return network;
}

Bench network_bench(const Shape& pictures, const LayersOptions& options, const Axes& cut) {
  return {pictures,
          [=](const Layout& x, const Grid& grid) {
            const nn::NetworkPlacement placement{grid, cut[0], cut[1], {cut[2], cut[3]}};
            return distributed_pass(nn::distributed(network_of(options), placement), x, grid);
          },
          [=] { return local_pass(network_of(options), pictures); }};
}

Bench bench_named(const std::string& layer, const LayersOptions& o, const Axes& cut) {
  const Shape pictures{o.batch, o.channels, o.size, o.size};
  if (layer == "conv") return bench_of<nn::Conv2d, torch::nn::Conv2d>(pictures, conv_options(o));
  if (layer == "max-pool")
    return bench_of<nn::MaxPool2d, torch::nn::MaxPool2d>(pictures, torch::nn::MaxPool2dOptions(2));
  if (layer == "batch-norm")
    return bench_of<nn::BatchNorm2d, torch::nn::BatchNorm2d>(pictures, torch::nn::BatchNormOptions(o.channels));
  if (layer == "upsample")
    return bench_of<nn::Upsample, torch::nn::Upsample>(pictures, torch::nn::UpsampleOptions()
                                                                     .scale_factor(std::vector<double>{2, 2})
                                                                     .mode(torch::kBilinear)
                                                                     .align_corners(false));
  if (layer == "network") return network_bench(pictures, o, cut);
  return linear_bench(o);
}

std::function<Pass(const Communicator& world)> on_workers(const Bench& bench, const Axes& axes) {
  return [=](const Communicator& world) {
    const Grid grid(world, {{"ranks", world.size()}});
    const bool is_picture = bench.shape.size() == axes.size();
    const Layout x = is_picture ? nn::balanced_over(grid.shape(), axes)(bench.shape)
                                : nn::layout_copied_on(grid.shape(), bench.shape);
    return bench.distributed(x, grid);
  };
}

/// Times layers one after another, forward and backward including the sums of their gradients, in float32, beside torch::nn's
/// on one worker.
std::vector<Comparison> bench_layers(const std::vector<std::string>& layers, const LayersOptions& options) {
  Axes cut(std::size(kCuts));
  cut[check_choice("--cut", options.cut, kCuts)] = {"ranks"};
  std::vector<std::vector<Entrant>> comparisons;
  for (const std::string& layer : layers) {
    const Bench bench = bench_named(layer, options, cut);
    const auto local = [=](const Communicator&) { return bench.local(); };
    comparisons.push_back({{layer, on_workers(bench, cut)}, {"one worker, all threads", local, true}});
  }
  return side_by_side(options.run, comparisons);
}

void run_layers(Command<LayersOptions>& c) {
  std::vector<std::string_view> names{"all"};
  names.insert(names.end(), kLayers.begin(), kLayers.end());
  const std::vector<std::string> layers = check_choice("--layer", c.word, names) == 0 ? kLayers : std::vector{c.word};
  check_product({{"--batch", c.batch}, {"--channels", c.channels}}, kMost);
  const std::vector<Comparison> results = bench_layers(layers, c);
  if (!prints()) return;
  Report report{c.json};
  for (size_t i = 0; i < layers.size(); ++i) {
    report.text << text_of(layers[i], results[i]);
    Json row = {{"layer", layers[i]}, {"ranks", c.ranks()}};
    if (layers[i] != "linear") row["cut"] = c.cut;
    report.json.push_back(with_measured(row, results[i]));
  }
  report.print();
}

}  // namespace

void add_layers(Program& program) {
  const auto c = std::make_shared<Command<LayersOptions>>();
  c->word = "all";
  add_bench(program, "layers", "Time distributed layers, and torch::nn's on one worker", c, run_layers,
            {text("--layer", c->word, "conv|max-pool|batch-norm|upsample|linear|network|all",
                  "A convolution (kernel 3), a pooling, a norm, bilinear upsampling by 2, a linear layer, a network of "
                  "7 convolutions, 6 norms and 3 poolings, or each of them"),
             text("--cut", c->cut, "batch|channels|height|width", "The dim of pictures that is cut over the ranks"),
             number("--batch", c->batch, "Pictures"), number("--channels", c->channels, "Channels of a picture"),
             number("--size", c->size, "Height and width of a picture", 2, 1 << 16),
             number("--rows", c->rows, "Rows of the linear layer's input", 1, kMost),
             number("--features", c->features, "Features of the linear layer, in and out", 1, 1 << 16)},
            "a JSON list, an object of each layer: seconds of forward and backward, of one worker, ratio, "
            "peak_memory_bytes of each rank");
}

}  // namespace adjoin::bench
