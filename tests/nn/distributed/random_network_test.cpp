#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules.h>

#include "adjoin/nn/distributed/class_loss.hpp"
#include "adjoin/nn/distributed/loss.hpp"
#include "adjoin/nn/distributed/network.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/layers.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/window_layers.hpp"
#include "tests/support/worlds.hpp"

// Whole networks, drawn at random with their layouts and a loss: value, gradients and the gradients of a gradient penalty are
// those of one worker, also where some workers hold nothing.

namespace adjoin::nn {
namespace {

namespace t = torch::nn;
using namespace adjoin::testing;

/// A network in two parts: the penalty is of the gradient with respect to what the first makes.
struct DrawnNetwork {
  t::Sequential front, back;
  at::Tensor input, target;  // the target undefined until the output is known
};

/// Appends layers, and keeps what they make of an input, which says which layers fit.
class Drawing {
 public:
  Drawing(Numbers& draw, at::Tensor x) : draw_(draw), x_(std::move(x)) {}
  template <class Layer>
  void add(t::Sequential& network, Layer layer) {
    layer->to(at::kDouble);
    const at::NoGradGuard no_gradient;
    x_ = layer->forward(x_);
    network->push_back(layer);
  }
  int64_t size(int64_t dim) const { return x_.size(dim); }
  const at::Tensor& made() const { return x_; }

  void add_picture_layer(t::Sequential& network) {
    const int64_t channels = size(1), most = draw_.from(1, 6);
    const bool has_space = size(2) > 1 && size(3) > 1;
    switch (draw_.from(0, 11)) {
      case 0:
        return add(network, t::ConvTranspose2d(t::ConvTranspose2dOptions(channels, most, draw_.from(1, 3))));
      case 1:
        if (has_space) return add(network, t::BatchNorm2d(t::BatchNormOptions(channels).eps(0.1)));
        break;
      case 2:
        if (has_space)
          return add(network, t::InstanceNorm2d(t::InstanceNormOptions(channels).eps(0.1).affine(draw_.one_in(2))));
        break;
      case 3:
        return add(network, t::GroupNorm(t::GroupNormOptions(draw_.one_in(2) ? 1 : channels, channels).eps(0.1)));
      case 4:
        if (has_space) return add(network, t::AvgPool2d(t::AvgPool2dOptions(2).stride(draw_.from(1, 2))));
        break;
      case 5:
        if (has_space) return add(network, t::MaxPool2d(t::MaxPool2dOptions(2).stride(draw_.from(1, 2))));
        break;
      case 6:
        if (size(2) * size(3) < 40)
          return add(network, t::Upsample(t::UpsampleOptions()
                                              .scale_factor(std::vector<double>{2, 2})
                                              .mode(torch::kBilinear)
                                              .align_corners(false)));
        break;
      case 7:
        return add(network, t::AdaptiveAvgPool2d(t::AdaptiveAvgPool2dOptions({draw_.from(1, 4), draw_.from(1, 4)})));
      case 8:
        return add(network, t::ZeroPad2d(t::ZeroPad2dOptions({draw_.from(0, 2), -draw_.from(0, size(3) - 1),
                                                              -draw_.from(0, size(2) - 1), draw_.from(0, 2)})));
      case 9:
        return add(network, t::Softmax(draw_.from(-3, -1)));
      default:
        break;
    }
    const int64_t kernel = std::min({draw_.from(1, 3), size(2), size(3)});
    add(network, t::Conv2d(t::Conv2dOptions(channels, most, kernel).padding(kernel / 2).stride(draw_.from(1, 2))));
  }

  void add_function(t::Sequential& network) {
    switch (draw_.from(0, 2)) {
      case 0:
        return add(network, t::Tanh());
      case 1:
        return add(network, t::Softplus());
      default:
        return add(network, t::Sigmoid());
    }
  }

  void add_features(t::Sequential& network) {
    add(network, t::Flatten());
    add(network, t::Linear(size(1), draw_.from(1, 7)));
    if (draw_.one_in(2)) add(network, t::LayerNorm(t::LayerNormOptions({size(1)}).eps(0.1)));
    add_function(network);
    add(network, t::Linear(t::LinearOptions(size(1), draw_.from(2, 5)).bias(draw_.one_in(2))));
  }

 private:
  Numbers& draw_;
  at::Tensor x_;
};

at::Tensor drawn_numbers(at::IntArrayRef shape, Numbers& draw) {
  return random_tensor(shape, Kind::replicated, Communicator(), draw.from(0, 1000));
}

DrawnNetwork draw_network(Numbers& draw) {
  DrawnNetwork drawn;
  const bool of_words = draw.one_in(4);
  drawn.input = of_words ? drawn_numbers({draw.from(1, 4), draw.from(1, 4)}, draw).mul(10).to(at::kLong).remainder(7)
                         : drawn_numbers({draw.from(1, 3), draw.from(1, 3), draw.from(2, 7), draw.from(2, 7)}, draw);
  Drawing drawing(draw, drawn.input);
  if (of_words) drawing.add(drawn.front, t::Embedding(7, draw.from(1, 5)));
  if (!of_words) {
    for (int64_t layer = draw.from(1, 4); layer > 0; --layer) {
      drawing.add_picture_layer(drawn.back);
      if (draw.one_in(2)) drawing.add_function(drawn.back);
    }
  }
  if (of_words || draw.one_in(2)) drawing.add_features(drawn.back);
  drawn.target = drawing.made();
  return drawn;
}

/// Batch, channels and dims of space over some axes of a grid of the world; each axis cuts one of them or none.
NetworkPlacement draw_placement(Numbers& draw, const Communicator& world) {
  const int a = world.size() % 2 == 0 && draw.one_in(2) ? 2 : world.size();
  NetworkPlacement placement{Grid(world, {{"a", a}, {"b", world.size() / a}}), {}, {}, {{}, {}}};
  for (const char* axis : {"a", "b"}) {
    std::vector<std::string>* const cut[] = {&placement.batch, &placement.channels, &placement.space[0],
                                             &placement.space[1]};
    cut[draw.from(0, 3)]->emplace_back(axis);
  }
  return placement;
}

void expect_near(const at::Tensor& found, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  if (found.numel() == 0) return;
  EXPECT_LE((found - expected).abs().max().item<double>(), 1e-9 * (1 + expected.abs().max().item<double>())) << what;
}

/// The gradients of a loss and of the sum of the squares of its own gradient with respect to `of`.
void backward_with_penalty(const at::Tensor& loss, const at::Tensor& of) {
  const at::Tensor gradient = torch::autograd::grad({loss}, {of}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  (loss + gradient.square().sum()).backward();
}

template <class Loss, class TwinLoss>
void compare_losses(DrawnNetwork& drawn, Numbers& draw, Loss loss, TwinLoss twin_loss,
                    const NetworkPlacement& placement) {
  const Grid& grid = placement.grid;
  const Communicator& world = grid.world();
  t::Sequential front(std::dynamic_pointer_cast<t::SequentialImpl>(drawn.front->clone())),
      back(std::dynamic_pointer_cast<t::SequentialImpl>(drawn.back->clone()));
  Sequential our_front = distributed(front, placement), our_back = distributed(back, placement);
  fill_both(*our_front, *front, world);
  fill_both(*our_back, *back, world);

  const bool is_everywhere = draw.one_in(2);
  const GridShape lies = is_everywhere ? grid.shape() : random_grid(draw.seed(), world.size());
  const Layout layout = random_layout(draw.seed(), lies, drawn.input.sizes().vec(), Kind::replicated);
  const Layout of_target =
      random_layout(draw.seed(), random_grid(draw.seed(), world.size()), drawn.target.sizes().vec(), Kind::replicated);
  SCOPED_TRACE("input " + layout.to_string() + "\n  target " + of_target.to_string());
  DistributedTensor x = laid_out(drawn.input, layout, grid);
  at::Tensor x1 = drawn.input.clone();
  const bool is_of_words = !front->is_empty();
  if (!is_of_words) x.local.requires_grad_(), x1.requires_grad_();

  const DistributedTensor h = our_front(x);
  const at::Tensor h1 = is_of_words ? front->forward(x1) : x1;
  const DistributedTensor value = loss(our_back(h), laid_out(drawn.target, of_target, grid));
  const at::Tensor value1 = twin_loss(back->forward(h1), drawn.target);
  expect_near(whole(value).detach(), value1.detach(), "loss");
  backward_with_penalty(value.local.sum(), h.local);
  backward_with_penalty(value1, h1);

  if (!is_of_words) expect_near(whole_gradient(x), x1.grad(), "gradient of the input");
  for (const auto& [ours, theirs] : {std::pair(&our_front, &front), std::pair(&our_back, &back)}) {
    parallel::sum_gradients(**ours);
    for (const Parameter& p : parameters_of(**ours)) {
      if (p.is_buffer) continue;
      const at::Tensor own = p.tensor.grad().defined() ? p.tensor.grad() : at::zeros_like(p.tensor);
      const at::Tensor expected = (*theirs)->named_parameters()[p.name].grad();
      if (expected.defined()) expect_near(whole({own, p.layout, p.grid}), expected, "gradient of " + p.name);
    }
  }
}

void compare_network(uint64_t seed, const Communicator& world) {
  Numbers draw(seed);
  DrawnNetwork drawn = draw_network(draw);
  const at::Tensor output = drawn.target;
  const NetworkPlacement placement = draw_placement(draw, world);
  std::ostringstream text;
  text << c10::str(drawn.front, drawn.back);
  SCOPED_TRACE("input " + shape_text(drawn.input.sizes().vec()) + " of " + text.str() + "batch " +
               c10::str(placement.batch) + " channels " + c10::str(placement.channels) + " height " +
               c10::str(placement.space[0]) + " width " + c10::str(placement.space[1]));
  drawn.target = drawn_numbers(output.sizes(), draw);
  switch (draw.from(0, 2)) {
    case 0: {
      const auto options = t::MSELossOptions().reduction(torch::kSum);
      return compare_losses(drawn, draw, MSELoss(options, placement.grid), t::MSELoss(options), placement);
    }
    case 1:
      drawn.target = drawn.target.sigmoid();
      return compare_losses(drawn, draw, BCEWithLogitsLoss(placement.grid), t::BCEWithLogitsLoss(), placement);
    default: {
      drawn.target = drawn.target.select(1, 0).mul(10).to(at::kLong).remainder(output.size(1));
      const auto options = t::CrossEntropyLossOptions().label_smoothing(0.1);
      return compare_losses(drawn, draw, CrossEntropyLoss(options, placement.grid), t::CrossEntropyLoss(options),
                            placement);
    }
  }
}

TEST(RandomNetwork, has_the_loss_the_gradients_and_the_penalty_of_one_worker) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for_each_seed(world, 40, [&](uint64_t seed) { compare_network(seed, world); });
  });
}

}  // namespace
}  // namespace adjoin::nn
