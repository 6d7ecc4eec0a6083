#include <torch/optim/adamw.h>

#include "adjoin/parallel/optimizer.hpp"
#include "tests/support/global_tensors.hpp"
#include "tests/support/random_modules.hpp"
#include "tests/support/scale.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;

/// The difference of a tensor from what it should be, beside the largest of its elements or 1.
double error_of(const at::Tensor& found, const at::Tensor& expected) {
  if (!expected.defined() || !found.defined() || expected.numel() == 0) return largest_error(found, expected);
  const double largest = std::max(1.0, expected.abs().max().item<double>());
  return largest_error(found / largest, expected / largest);
}

class Comparison {
 public:
  Comparison(uint64_t seed, const Communicator& world)
      : seed_(seed),
        numbers_(seed),
        grid_(world, axes(world.size())),
        plain_(std::make_shared<RandomModule>(seed)),
        net_(std::make_shared<RandomModule>(seed)),
        cuts_(random_cuts(seed + 1, *net_, grid_.shape())),
        model_(distribute(net_, grid_, cuts_)) {}

  void run() {
    SCOPED_TRACE("seed " + std::to_string(seed_) + " on " + grid_.shape().to_string() + "\n" + plain_->to_string() +
                 model_.to_string() + "ids " + cuts_.inputs[0] + "; x " + cuts_.inputs[1]);
    try {
      if (plain_->is_twice_differentiable() && numbers_.one_in(3)) twice();
      numbers_.one_in(3) ? with_our_optimizer() : with_torchs_optimizer();
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();  // with the trace
      throw;
    }
  }

 private:
  std::vector<GridShape::Axis> axes(int workers) {
    if (workers == 4 && numbers_.one_in(2)) return {{"a", 2}, {"b", 2}};
    if (numbers_.one_in(3)) return {{"a", workers}, {"b", 1}};
    return {{"a", workers}};
  }
  at::Tensor ids(int step) const {
    return (at::arange(RandomModule::kSamples * RandomModule::kTokens) * (step + 3) + step)
        .remainder(RandomModule::kWords)
        .view({RandomModule::kSamples, RandomModule::kTokens});
  }
  at::Tensor x(int step) const {
    return (at::arange(RandomModule::kSamples * RandomModule::kTokens * RandomModule::kFeatures, at::kDouble) *
            (0.7 + step))
        .cos()
        .view({RandomModule::kSamples, RandomModule::kTokens, RandomModule::kFeatures});
  }
  static std::vector<at::Tensor> trained(const RandomModule& module) {
    std::vector<at::Tensor> some;
    for (const at::Tensor& p : module.parameters())
      if (p.requires_grad()) some.push_back(p);
    return some;
  }

  void twice() {
    const auto of_plain = trained(*plain_), of_net = trained(*net_);
    if (of_plain.empty()) return;
    const auto penalty = [](const at::Tensor& loss, const std::vector<at::Tensor>& weights) {
      at::Tensor sum = loss * 0.1;
      if (loss.requires_grad())
        for (const at::Tensor& gradient : torch::autograd::grad({loss}, weights, {}, true, true, true))
          if (gradient.defined()) sum = sum + gradient.square().sum();
      return sum;
    };
    const at::Tensor expected = penalty(plain_->forward(ids(0), x(0)), of_plain),
                     found = penalty(model_.forward({}, ids(0), x(0)), of_net);
    EXPECT_LT(error_of(whole(found), expected), 1e-12);
    if (!expected.requires_grad()) return;
    const auto second_plain = torch::autograd::grad({expected}, of_plain, {}, {}, false, true),
               second = torch::autograd::grad({found}, of_net, {}, {}, false, true);
    for (size_t i = 0; i < second.size(); ++i)
      EXPECT_LT(error_of(second[i].defined() ? whole(second[i]) : second[i], second_plain[i]), 1e-11) << i;
  }

  void with_torchs_optimizer() {
    const auto options = torch::optim::AdamWOptions(1e-2).eps(1e-2);
    torch::optim::AdamW of_plain(plain_->parameters(), options), of_net(net_->parameters(), options);
    const bool sets_none = numbers_.one_in(2);
    for (int step = 0; step < 2; ++step) {
      of_plain.zero_grad(sets_none);
      of_net.zero_grad(sets_none);
      backward(step);
      for (const auto& item : net_->named_parameters()) {
        const at::Tensor expected = plain_->named_parameters()[item.key()].grad(), found = item.value().grad();
        EXPECT_LT(error_of(found.defined() ? whole(found) : found, expected), 1e-12) << item.key();
      }
      of_plain.step();
      of_net.step();
    }
    for (const auto& item : net_->named_parameters())
      EXPECT_LT(error_of(whole(item.value()), plain_->named_parameters()[item.key()]), 1e-11) << item.key();
  }

  void with_our_optimizer() {
    auto alone = distribute(plain_, Grid(Communicator(), {{"a", 1}}), {});
    if (alone.trained().empty()) return;
    const int zero = static_cast<int>(numbers_.from(0, 2));
    Optimizer of_plain(alone.trained(), adamw({.epsilon = 1e-2}), {.clip = 0.5}),
        of_net(model_.trained(), adamw({.epsilon = 1e-2}), {.clip = 0.5, .zero = zero});
    for (int step = 0; step < 2; ++step) {
      backward(step);
      EXPECT_NEAR(of_net.step(1e-2).norm, of_plain.step(1e-2).norm, 1e-10);
    }
    for (const auto& item : net_->named_parameters())
      EXPECT_LT(error_of(whole(item.value()), whole(plain_->named_parameters()[item.key()])), 1e-11) << item.key();
  }

  void backward(int step) {
    const at::Tensor expected = plain_->forward(ids(step), x(step)), found = model_.forward({}, ids(step), x(step));
    EXPECT_LT(error_of(whole(found), whole(expected)), 1e-12);
    ASSERT_EQ(found.requires_grad(), expected.requires_grad());
    if (!expected.requires_grad()) return;
    expected.backward();
    found.backward();
  }

  const uint64_t seed_;
  Numbers numbers_;
  const Grid grid_;
  const std::shared_ptr<RandomModule> plain_, net_;
  const Cuts cuts_;
  DistributedModule<RandomModule> model_;
};

TEST(RandomModules, train_as_on_one_worker) {
  const char* first = std::getenv("ADJOIN_SEED");
  const uint64_t begin = first != nullptr ? std::strtoull(first, nullptr, 10) : 0;
  const int64_t count = first != nullptr ? 1 : 12 * test::scale();
  for_each_world({1, 2, 3, 4, 5}, [&](const Communicator& world) {
    for (int64_t i = 0; i < count; ++i)
      Comparison(begin + (first != nullptr ? 0 : static_cast<uint64_t>(i * 5 + world.size())), world).run();
  });
}

}  // namespace
}  // namespace adjoin::parallel
