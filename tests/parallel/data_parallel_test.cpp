#include "adjoin/parallel/data_parallel.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>

#include <memory>
#include <numeric>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/recompute.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/layouts.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/window_layers.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel {
namespace {

using namespace adjoin::testing;
using Overlap = DataParallelOptions::Overlap;

at::Tensor numbers(at::IntArrayRef shape, int64_t seed) {
  return random_tensor(shape, Kind::replicated, Communicator(), seed);
}

/// Two layers, the first of which is used twice, within `recomputed` where that is asked, and one that some batches use alone.
struct Net : torch::nn::Module {
  explicit Net(int64_t seed, bool recomputes = false)
      : first(register_module("first", torch::nn::Linear(4, 4))),
        out(register_module("out", torch::nn::Linear(4, 2))),
        seldom(register_module("seldom", torch::nn::Linear(4, 2))),
        never(register_module("never", torch::nn::Linear(2, 2))),
        recomputes(recomputes) {
    to(at::kDouble);
    const at::NoGradGuard no_gradient;
    for (const at::Tensor& weight : parameters()) weight.copy_(numbers(weight.sizes(), seed++));
  }
  at::Tensor forward(const at::Tensor& x, bool is_seldom) {
    const auto twice = [this](const std::vector<at::Tensor>& in) { return first(first(in[0]).tanh()).tanh(); };
    const at::Tensor input = x.detach().requires_grad_();
    const at::Tensor h = recomputes ? first(recomputed(twice, {input})) : first(twice({input}));
    return is_seldom ? out(h) + seldom(h) : out(h);
  }
  torch::nn::Linear first, out, seldom, never;
  bool recomputes;
};

at::Tensor loss_of(Net& net, const at::Tensor& x, bool is_seldom) {
  return net.forward(x, is_seldom).square().sum() / x.size(0);
}

void expect_same_gradients(const torch::nn::Module& found, const torch::nn::Module& expected) {
  const auto others = expected.named_parameters();
  for (const auto& parameter : found.named_parameters()) {
    const at::Tensor mine = parameter.value().grad(), other = others[parameter.key()].grad();
    ASSERT_EQ(mine.defined(), other.defined()) << parameter.key();
    if (mine.defined()) {
      EXPECT_TRUE(at::allclose(mine, other, 1e-10, 1e-12)) << parameter.key();
    }
  }
}

/// Samples of each rank and micro-batch, some of them 0.
std::vector<std::vector<int64_t>> drawn_samples(Numbers& draw, int ranks, int64_t micro_batches) {
  std::vector<std::vector<int64_t>> samples(static_cast<size_t>(ranks));
  for (auto& of_rank : samples)
    for (int64_t i = 0; i < micro_batches; ++i) of_rank.push_back(draw.one_in(4) ? 0 : draw.from(1, 5));
  return samples;
}

TEST(DataParallel, gives_the_gradients_of_one_worker_with_the_joined_batch) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for_each_seed(world, 12, [&](uint64_t seed) {
      Numbers draw(seed);
      const bool recomputes = draw.one_in(2);
      Net net(world.rank() * 100, recomputes), single(0);
      DataParallelOptions options{.overlap = draw.one_in(2) ? Overlap::on : Overlap::off};
      options.bucket_bytes = draw.from(0, 1) * draw.from(1, 400);
      DataParallel data(net, world, options);
      torch::optim::AdamW optimizer(net.parameters(), torch::optim::AdamWOptions(0.01).eps(1e-4)),
          reference(single.parameters(), torch::optim::AdamWOptions(0.01).eps(1e-4));
      for (int64_t step = 0; step < 3; ++step) {
        const auto samples = drawn_samples(draw, world.size(), draw.from(1, 3));
        const at::Tensor all = numbers({100, 4}, step);
        const auto of_rank = [](const std::vector<int64_t>& counts) {
          return std::accumulate(counts.begin(), counts.end(), int64_t{0});
        };
        int64_t total = 0;
        for (const auto& counts : samples) total += of_rank(counts);
        optimizer.zero_grad();
        reference.zero_grad();
        double found = 0, expected = 0;
        int64_t begin = 0;
        for (int rank = 0; rank < world.size(); ++rank) {
          const auto& counts = samples[static_cast<size_t>(rank)];
          for (size_t i = 0; i < counts.size(); ++i) {
            const bool is_seldom = draw.one_in(5);
            const at::Tensor x = all.narrow(0, begin, counts[i]);
            begin += counts[i];
            if (counts[i] > 0) {
              const at::Tensor loss = loss_of(single, x, is_seldom) * static_cast<double>(counts[i]) / total;
              loss.backward();
              expected += loss.item<double>();
            }
            if (rank == world.rank())
              found = data.backward(counts[i] > 0 ? loss_of(net, x, is_seldom) : at::Tensor(), counts[i],
                                    {.last = i + 1 == counts.size()});
          }
        }
        EXPECT_NEAR(found, expected, 1e-11);
        expect_same_gradients(net, single);
        torch::nn::utils::clip_grad_norm_(net.parameters(), 0.5);
        torch::nn::utils::clip_grad_norm_(single.parameters(), 0.5);
        optimizer.step();
        reference.step();
      }
      for (size_t i = 0; i < net.parameters().size(); ++i)
        EXPECT_TRUE(at::allclose(net.parameters()[i], single.parameters()[i], 1e-9, 1e-10));
    });
  });
}

TEST(DataParallel, lets_lbfgs_act_alike_on_all_ranks) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    Net net(world.rank()), single(0);
    DataParallel data(net, world);
    const auto options = torch::optim::LBFGSOptions(0.1).max_iter(5);
    torch::optim::LBFGS ours(net.parameters(), options), reference(single.parameters(), options);
    const at::Tensor x = numbers({7, 4}, 3);
    const Range mine = Split::balanced(7, world.size(), 0).ranges(world.rank())[0];
    const auto all_used = [](Net& of) {
      return of.never(at::ones({1, 2}, at::kDouble)).sum();  // LBFGS wants a gradient of each
    };
    for (int step = 0; step < 2; ++step) {
      ours.step([&] {
        ours.zero_grad();
        const at::Tensor loss = loss_of(net, x.narrow(0, mine.begin, mine.size()), true) + all_used(net);
        return at::scalar_tensor(data.backward(loss, mine.size()), at::kDouble);
      });
      reference.step([&] {
        reference.zero_grad();
        const at::Tensor loss = loss_of(single, x, true) + all_used(single);
        loss.backward();
        return loss.detach();
      });
    }
    for (size_t i = 0; i < net.parameters().size(); ++i)
      EXPECT_TRUE(at::allclose(net.parameters()[i], single.parameters()[i], 1e-9, 1e-10));
  });
}

TEST(DataParallel, adds_to_gradients_that_are_there) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    Net net(0), single(0);
    DataParallel data(net, world);
    const at::Tensor x = numbers({2, 4}, 1);
    for (int i = 0; i < 2; ++i) {
      data.backward(loss_of(net, x, i == 0), 2);
      loss_of(single, x, i == 0).backward();
    }
    expect_same_gradients(net, single);
    EXPECT_EQ(data.backward({}, 0), 0) << "no rank has a sample";
    expect_same_gradients(net, single);
  });
}

TEST(DataParallel, makes_buffers_means_by_samples_or_those_of_the_first_rank_with_any) {
  for_each_world({2, 3, 4}, [](const Communicator& world) {
    torch::nn::BatchNorm1d norm(3);
    DataParallel data(*norm, world);
    // The first rank has no sample, the others two, three, and so on.
    std::vector<at::Tensor> inputs;
    int64_t samples = 0;
    for (int64_t rank = 0; rank < world.size(); ++rank) {
      inputs.push_back(numbers({rank == 0 ? 0 : rank + 1, 3}, rank).to(at::kFloat));
      samples += inputs.back().size(0);
    }
    const at::Tensor& mine = inputs[static_cast<size_t>(world.rank())];
    if (world.rank() == 1) norm->num_batches_tracked.fill_(4);
    data.backward(mine.size(0) > 0 ? norm->forward(mine).square().mean() : at::Tensor(), mine.size(0));
    EXPECT_TRUE(at::allclose(norm->running_mean, 0.1 * at::cat(inputs).sum(0) / samples, 1e-4, 1e-6));
    EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 5);
  });
}

/// Counts what a group all-reduces.
struct AllReduces : Observer {
  void begin(const Call& call) override {
    if (call.collective != Collective::all_reduce) return;
    ++calls;
    bytes += call.in.bytes();
  }
  int calls = 0;
  int64_t bytes = 0;
};

TEST(DataParallel, sums_gradients_while_backward_goes_on) {
  for_each_world({2}, [](const Communicator& world) {
    const auto seen = std::make_shared<AllReduces>();
    Net net(0);
    DataParallel data(net, world.observed_by(seen), {.overlap = Overlap::off, .bucket_bytes = 1});
    int when_first_is_reached = -1;
    for (int step = 0; step < 2; ++step) {
      net.zero_grad();
      const at::Tensor x = numbers({3, 4}, 1);
      const at::Tensor h = net.first(x);
      h.register_hook([&](const at::Tensor&) { when_first_is_reached = seen->calls; });
      seen->calls = 0;
      data.backward((net.out(h) + net.seldom(h) + net.never(net.out(h))).mean(), 3);
    }
    EXPECT_EQ(when_first_is_reached, 6) << "the weights and biases of the three layers behind it";
  });
}

TEST(DataParallel, halves_the_bytes_by_bfloat16) {
  for_each_world({2, 3}, [](const Communicator& world) {
    const auto bytes_of = [&](std::optional<at::ScalarType> wire) {
      const auto seen = std::make_shared<AllReduces>();
      torch::nn::Linear layer(200, 300);
      DataParallel data(*layer, world.observed_by(seen), {.wire = wire});
      seen->bytes = 0;
      data.backward(layer(at::ones({1, 200})).sum(), 1);
      EXPECT_TRUE(at::allclose(layer->weight.grad(), at::ones({300, 200}), 0.01));
      return seen->bytes - 2 * 3;  // without the flags of two parameters
    };
    EXPECT_EQ(2 * bytes_of(at::kBFloat16), bytes_of({}));
  });
}

TEST(DataParallel, ends_loops_of_unequal_length_together) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    torch::nn::Linear layer(2, 1);
    DataParallel data(*layer, world);
    int steps = 0;
    for (; data.any(steps <= world.rank()); ++steps) {
      const bool has_batch = steps <= world.rank();
      data.backward(has_batch ? layer(at::ones({1, 2})).sum() : at::Tensor(), has_batch ? 1 : 0);
    }
    EXPECT_EQ(steps, world.size());
  });
}

/// That all ranks refuse it with a message that has `expected` in it.
template <class Function>
void expect_thrown_on_all(Function function, const std::string& expected) {
  const std::string message = thrown_by<InvalidArgument>(function);
  EXPECT_NE(message.find(expected), std::string::npos) << message;
}

TEST(DataParallel, refuses_modules_that_differ) {
  for_each_world({2, 3}, [](const Communicator& world) {
    const bool is_last = world.rank() + 1 == world.size();
    const std::string last = "rank " + std::to_string(world.size() - 1);
    torch::nn::Sequential sizes(torch::nn::Linear(2, 3), torch::nn::Linear(3, is_last ? 5 : 4));
    expect_thrown_on_all([&] { DataParallel(*sizes, world); },
                         "rank 0 has '1.weight' [4, 3] Float, " + last + " has '1.weight' [5, 3] Float");
    torch::nn::Sequential frozen(torch::nn::Linear(2, 3));
    frozen->parameters()[1].requires_grad_(!is_last);
    expect_thrown_on_all([&] { DataParallel(*frozen, world); },
                         last + " has '0.bias' [3] Float (requires no gradient)");
    torch::nn::Sequential longer(torch::nn::Linear(2, 3));
    if (is_last) longer->push_back(torch::nn::BatchNorm1d(3));
    expect_thrown_on_all([&] { DataParallel(*longer, world); },
                         "rank 0 has nothing more, " + last + " has '1.weight' [3] Float");
    torch::nn::Linear types(2, 3);
    if (is_last) types->to(at::kDouble);
    expect_thrown_on_all([&] { DataParallel(*types, world); }, "Float, " + last + " has 'weight' [3, 2] Double");
  });
}

TEST(DataParallel, refuses_what_it_cannot_sum_on_all_ranks_and_keeps_gradients) {
  for_each_world({1, 2, 3}, [](const Communicator& world) {
    const bool is_last = world.rank() + 1 == world.size();
    torch::nn::Embedding words(torch::nn::EmbeddingOptions(5, 2).sparse(is_last));
    DataParallel sparse(*words, world);
    words->weight.mutable_grad() = at::ones({5, 2});
    expect_thrown_on_all([&] { sparse.backward(words(at::ones({1}, at::kLong)).sum(), 1); }, "'weight' is sparse");
    EXPECT_TRUE(words->weight.grad().equal(at::ones({5, 2})));

    torch::nn::Linear layer(2, 1);
    layer->bias.requires_grad_(false);
    DataParallel data(*layer, world);
    const auto loss = [&] { return layer(at::ones({1, 2})).sum(); };
    expect_thrown_on_all([&] { DataParallel(*layer, world, {.wire = at::kInt}); },
                         "a floating-point type as `wire`, got Int");
    expect_thrown_on_all([&] { DataParallel(*layer, world); },
                         "the gradients of 'weight' are already summed by another");
    expect_thrown_on_all([&] { loss().backward(); }, "'weight' was computed on this rank alone");
    expect_thrown_on_all([&] { loss().backward({}, true, /*create_graph=*/true); }, "torch::autograd::grad");
    layer->weight.mutable_grad().reset();
    expect_thrown_on_all([&] { data.backward(at::ones({2}, at::kFloat).requires_grad_(), 1); },
                         "a single number, got [2]");
    expect_thrown_on_all([&] { data.backward(loss(), -1); }, "0 samples or more, got -1");
    expect_thrown_on_all([&] { data.backward({}, 1); }, "an undefined tensor");
    layer->bias.requires_grad_(is_last);
    expect_thrown_on_all([&] { data.backward(loss(), 1); }, "'bias' did not require gradients");
    layer->bias.requires_grad_(false);
    EXPECT_NEAR(data.backward(loss(), 1), loss().template item<double>(), 1e-5) << "it goes on";
    EXPECT_TRUE(layer->weight.grad().equal(at::ones({1, 2})));
  });
}

TEST(DataParallel, leaves_the_module_as_it_was_when_it_ends) {
  torch::nn::Linear layer(2, 1);
  { const DataParallel data(*layer, Communicator()); }
  layer(at::ones({1, 2})).sum().backward();
  EXPECT_TRUE(layer->weight.grad().equal(at::ones({1, 2})));
  const DataParallel again(*layer, Communicator());
}

}  // namespace
}  // namespace adjoin::parallel
