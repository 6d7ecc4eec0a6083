#include "adjoin/nn/distributed/class_loss.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/loss.h>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/embedding.hpp"
#include "tests/support/adjoint.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/layers.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/window_layers.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::nn {
namespace {

using namespace adjoin::testing;

/// [batch, classes, *], or [classes].
std::vector<int64_t> random_scores_shape(Numbers& draw, bool may_lack_batch) {
  if (may_lack_batch && draw.one_in(6)) return {draw.from(1, 7)};
  std::vector<int64_t> shape{draw.from(1, 5), draw.from(1, 7)};
  for (int64_t space = draw.from(0, 2); space > 0; --space) shape.push_back(draw.from(1, 4));
  return shape;
}

at::Tensor random_classes(Numbers& draw, const std::vector<int64_t>& scores, int64_t ignored) {
  std::vector<int64_t> shape = scores;
  shape.erase(shape.begin() + (shape.size() > 1 ? 1 : 0));
  const int64_t classes = scores.size() > 1 ? scores[1] : scores[0];
  at::Tensor target = at::zeros(shape, at::kLong);
  auto flat = target.view({-1});
  for (int64_t i = 0; i < flat.numel(); ++i)
    flat[i] = i > 0 && draw.one_in(4) ? ignored : draw.from(0, classes - 1);  // the first counts
  return target;
}

template <class Options>
void draw_class_options(Numbers& draw, Options& options, int64_t classes, const Communicator& world) {
  const int64_t reduction = draw.from(0, 2);
  if (reduction == 0) options.reduction(torch::kNone);
  if (reduction == 1) options.reduction(torch::kSum);
  if (draw.one_in(2)) options.weight(random_tensor({classes}, Kind::replicated, world, draw.from(0, 1000)).exp());
  if (draw.one_in(2)) options.ignore_index(-1);
}

/// The value and the gradient of scores, of which some lie anywhere and some far from 0.
template <class Loss, class Twin, class Options>
void compare_class_loss(Numbers& draw, Options options, const Communicator& world) {
  const Grid grid(world, {{"all", world.size()}});
  const bool may_lack_batch = std::is_same_v<Options, CrossEntropyLossOptions>;  // the other twin wants one
  const std::vector<int64_t> shape = random_scores_shape(draw, may_lack_batch);
  draw_class_options(draw, options, shape.size() > 1 ? shape[1] : shape[0], world);
  const at::Tensor x1 =
      (random_tensor(shape, Kind::replicated, world, draw.from(0, 1000)) * 3 + (draw.one_in(3) ? 1000 : 0))
          .requires_grad_(true);
  const at::Tensor classes = random_classes(draw, shape, options.ignore_index());
  const Layout input = random_end_layouts(draw, shape, world.size()).input;
  const Layout labels =
      random_layout(draw.seed(), random_grid(draw.seed(), world.size()), classes.sizes().vec(), Kind::replicated);
  LayoutRule output;
  if (draw.one_in(3)) output = on_one_worker(static_cast<int>(draw.from(0, world.size() - 1)));
  SCOPED_TRACE("input " + input.to_string() + "\n  target " + labels.to_string());
  DistributedTensor x = laid_out(x1.detach(), input, grid);
  x.local.requires_grad_(true);

  const DistributedTensor y = Loss(options, grid, output)->forward(x, laid_out(classes, labels, grid));
  const at::Tensor y1 = Twin(options)->forward(x1, classes);
  ASSERT_EQ(y.layout.shape(), y1.sizes().vec());
  expect_close(whole(y).detach(), y1.detach(), "value in " + y.layout.to_string());
  backward_from_both(y, y1);
  expect_close(whole_gradient(x), x1.grad(), "gradient of the input");
}

TEST(NLLLoss, equals_one_worker_on_random_layouts) {
  for_each_world({1, 2, 3, 4, 6}, [](const Communicator& world) {
    for_each_seed(world, 60, [&](uint64_t seed) {
      Numbers draw(seed);
      compare_class_loss<NLLLoss, torch::nn::NLLLoss>(draw, NLLLossOptions(), world);
    });
  });
}

TEST(CrossEntropyLoss, equals_one_worker_on_random_layouts) {
  for_each_world({1, 2, 3, 4, 6}, [](const Communicator& world) {
    for_each_seed(world, 100, [&](uint64_t seed) {
      Numbers draw(seed);
      CrossEntropyLossOptions options;
      if (draw.one_in(2)) options.label_smoothing(0.1);
      compare_class_loss<CrossEntropyLoss, torch::nn::CrossEntropyLoss>(draw, options, world);
    });
  });
}

TEST(CrossEntropyLoss, moves_no_scores_where_classes_are_cut) {
  struct LargestCall : Observer {
    void begin(const Call& call) override { elements = std::max(elements, call.elements().count); }
    int64_t elements = 0;
  };
  for_each_world({2, 4}, [](const Communicator& world) {
    if (world.checked()) return;  // checks are calls too
    const auto largest = std::make_shared<LargestCall>();
    const Grid grid(world.observed_by(largest), {{"classes", world.size()}});
    const Layout cut = balanced_over(grid.shape(), {{}, {"classes"}})({3, 400});
    DistributedTensor x = laid_out(at::ones({3, 400}), cut, grid);
    x.local.requires_grad_(true);
    const DistributedTensor target = laid_out(at::ones({3}, at::kLong), Layout(grid.shape(), {3}), grid);
    CrossEntropyLoss(grid)->forward(x, target).local.backward();
    EXPECT_EQ(largest->elements, 3);  // maxima and sums of the three samples
  });
}

TEST(ClassLoss, and_embedding_on_a_part_of_a_grid_need_the_workers_of_that_part_alone) {
  for_each_world({2, 4}, [](const Communicator& world) {
    const Grid grid(world, {{"pp", 2}, {"tp", world.size() / 2}});
    if (grid.coordinate("pp") == 0) return;
    const Grid part = grid.at("pp", 1);
    EXPECT_EQ(part.workers(), part.shape().ranks());
    const at::Tensor all = at::arange(48, at::kDouble).view({6, 8}).sin(), classes = at::arange(6);
    const DistributedTensor words = laid_out(classes, Layout(part.shape(), {6}), part);
    EXPECT_EQ(Embedding(EmbeddingOptions(8, 3), part)->forward(words).layout.shape(), (std::vector<int64_t>{6, 3}));
    const DistributedTensor scores = laid_out(all, balanced_over(part.shape(), {{}, {"tp"}})({6, 8}), part);
    EXPECT_NEAR(CrossEntropyLoss(part)->forward(scores, words).local.item<double>(),
                at::cross_entropy_loss(all, classes).item<double>(), 1e-12);
  });
}

TEST(ClassLoss, refuses_what_does_not_fit_on_every_worker) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const Grid grid(world, {{"rows", world.size()}});
    const auto lies = balanced_over(grid.shape(), {{"rows"}});
    const Layout input = lies({4, 3}), labels = lies({4});
    const DistributedTensor x = laid_out(at::ones({4, 3}), input, grid);
    const auto refusal = [&](const CrossEntropyLossOptions& options, const at::Tensor& target) {
      const DistributedTensor placed = laid_out(target, lies(target.sizes().vec()), grid);
      return thrown_by<InvalidArgument>([&] { CrossEntropyLoss(options, grid)->forward(x, placed); });
    };
    EXPECT_EQ(refusal({}, at::tensor({0, 3, 2, -100}, at::kLong)),
              "CrossEntropyLoss: expected targets from 0 to 2, or -100 to be ignored; 1 is not; the target is " +
                  labels.to_string());
    EXPECT_EQ(refusal({}, at::tensor({0, 3, 2, -1}, at::kLong)),
              "CrossEntropyLoss: expected targets from 0 to 2, or -100 to be ignored; 2 are not; the target is " +
                  labels.to_string());
    EXPECT_EQ(refusal({}, at::ones({4})), "CrossEntropyLoss: expected a target of classes, int64, got one of Float");
    EXPECT_EQ(refusal({}, at::ones({5}, at::kLong)),
              "CrossEntropyLoss: expected a target of [4], the input's shape without classes; the target is " +
                  lies({5}).to_string());
    EXPECT_EQ(refusal(CrossEntropyLossOptions().weight(at::ones({4})), at::ones({4}, at::kLong)),
              "CrossEntropyLoss: expected a weight for each of 3 classes, got a tensor of [4]; the input is " +
                  input.to_string());
    EXPECT_EQ(refusal(CrossEntropyLossOptions().label_smoothing(1.5), at::ones({4}, at::kLong)),
              "CrossEntropyLoss: expected a label smoothing from 0 to 1, got 1.500000");
  });
}

}  // namespace
}  // namespace adjoin::nn
