#include "adjoin/parallel/distribute.hpp"

#include <gmock/gmock.h>
#include <torch/headeronly/version.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

#include "adjoin/parallel/optimizer.hpp"
#include "tests/support/failures.hpp"
#include "tests/support/global_tensors.hpp"
#include "tests/support/waves.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::parallel::plain_modules {
namespace {

using namespace adjoin::testing;
namespace nn = torch::nn;

/// A transformer's block as users write it: a fused product of queries, keys and values, views, operations in place.
struct BlockImpl : nn::Module {
  BlockImpl(int64_t features, int64_t heads) : heads(heads) {
    norm1 = register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({features})));
    norm2 = register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({features})));
    qkv = register_module("qkv", nn::Linear(features, 3 * features));
    out = register_module("out", nn::Linear(features, features));
    up = register_module("up", nn::Linear(features, 4 * features));
    down = register_module("down", nn::Linear(4 * features, features));
  }
  at::Tensor forward(at::Tensor x) {
    const auto b = x.size(0), t = x.size(1), e = x.size(2);
    const auto parts = qkv(norm1(x)).chunk(3, -1);
    const auto by_head = [&](const at::Tensor& p) { return p.view({b, t, heads, e / heads}).transpose(1, 2); };
    const at::Tensor a =
        at::scaled_dot_product_attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2]), {}, 0.0, true);
    x = x + out(a.transpose(1, 2).contiguous().view({b, t, e}));
    at::Tensor u = up(norm2(x));
    u.relu_();
    at::Tensor y = down(u);
    y += x;
    return y;
  }
  int64_t heads;
  nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(Block);

struct NetImpl : nn::Module {
  NetImpl(int64_t words, int64_t features, int64_t heads) {
    table = register_module("table", nn::Embedding(words, features));
    blocks = register_module("blocks", nn::Sequential(Block(features, heads), Block(features, heads)));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({features})));
    fill_with_waves(*this);
  }
  at::Tensor forward(const at::Tensor& ids) { return at::linear(norm(blocks->forward(table(ids))), table->weight); }
  nn::Embedding table{nullptr};
  nn::Sequential blocks{nullptr};
  nn::LayerNorm norm{nullptr};
};

constexpr int64_t kWords = 20, kFeatures = 24, kHeads = 6;

const std::vector<std::pair<std::string, CutText>> kTensorParallel{{"*.qkv.*", "outputs over tp in 3 parts by 4"},
                                                                   {"*.out.weight", "inputs over tp by 4"},
                                                                   {"*.up.*", "outputs over tp"},
                                                                   {"*.down.weight", "inputs over tp"}};

struct Case {
  std::vector<GridShape::Axis> axes;
  Cuts cuts;
};
std::vector<Case> cases(int workers) {
  std::vector<Case> all{{{{"tp", workers}}, {kTensorParallel}},
                        {{{"tp", workers}}, {kTensorParallel, {"tokens over tp"}}},
                        {{{"dp", workers}}, {{}, {"samples over dp"}}},
                        {{{"tp", workers}}, {{{"table.weight", "words over tp"}}}}};
  if (workers % 2 == 0) all.push_back({{{"dp", 2}, {"tp", workers / 2}}, {kTensorParallel, {"samples over dp"}}});
  if (workers % 2 == 0)
    all.push_back({{{"dp", 2}, {"tp", workers / 2}}, {kTensorParallel, {"samples over dp, tokens over tp"}}});
  return all;
}

at::Tensor ids_of(int step) {
  return (at::arange(3 * 7) * (step + 3) + step).remainder(kWords).view({3, 7});
}
at::Tensor loss_of(const at::Tensor& scores, const at::Tensor& ids) {
  return at::cross_entropy_loss(scores.reshape({-1, kWords}), ids.roll({-1}, {1}).reshape({-1}));
}

TEST(Distribute, trains_with_an_optimizer_of_libtorch_as_one_worker_does) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const Case& one : cases(world.size())) {
      auto plain = std::make_shared<NetImpl>(kWords, kFeatures, kHeads),
           net = std::make_shared<NetImpl>(kWords, kFeatures, kHeads);
      const Grid grid(world, one.axes);
      auto model = distribute(net, grid, one.cuts);
      SCOPED_TRACE(grid.shape().to_string() + model.to_string());
      const auto options = torch::optim::AdamWOptions(1e-2).eps(1e-3);
      torch::optim::AdamW of_plain(plain->parameters(), options), of_net(net->parameters(), options);
      for (int step = 0; step < 3; ++step) {
        of_plain.zero_grad();
        of_net.zero_grad();
        const at::Tensor ids = ids_of(step);
        const at::Tensor expected = loss_of(plain->forward(ids), ids),
                         loss = loss_of(model.forward({.number = step}, ids), ids);
        EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-12);
        expected.backward();
        loss.backward();
        for (const auto& item : net->named_parameters())
          EXPECT_LT(largest_error(whole(item.value().grad()), plain->named_parameters()[item.key()].grad()), 1e-12)
              << item.key();
        EXPECT_NEAR(nn::utils::clip_grad_norm_(net->parameters(), 0.5),
                    nn::utils::clip_grad_norm_(plain->parameters(), 0.5), 1e-12);
        of_plain.step();
        of_net.step();
      }
      for (const auto& item : net->named_parameters())
        EXPECT_LT(largest_error(whole(item.value()), plain->named_parameters()[item.key()]), 1e-11) << item.key();
    }
  });
}

TEST(Distribute, trains_with_our_optimizer_as_one_worker_does) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    for (const Case& one : cases(world.size()))
      for (const int zero : {0, 1, 2, 3}) {
        auto plain = std::make_shared<NetImpl>(kWords, kFeatures, kHeads),
             net = std::make_shared<NetImpl>(kWords, kFeatures, kHeads);
        const Grid grid(world, one.axes);
        auto model = distribute(net, grid, one.cuts);
        auto alone = distribute(plain, Grid(Communicator(), {{"tp", 1}}), {});
        SCOPED_TRACE(grid.shape().to_string() + model.to_string());
        Optimizer of_net(zero == 3 ? model.shards() : model.trained(), adamw({.epsilon = 1e-3}),
                         {.clip = 0.5, .zero = std::min(zero, 2)});
        Optimizer of_plain(alone.trained(), adamw({.epsilon = 1e-3}), {.clip = 0.5});
        for (int step = 0; step < 3; ++step) {
          const at::Tensor ids = ids_of(step);
          const at::Tensor expected = loss_of(alone.forward({.number = step}, ids), ids),
                           loss = loss_of(model.forward({.number = step}, ids), ids);
          EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-11);
          expected.backward();
          loss.backward();
          EXPECT_NEAR(of_net.step(1e-2).norm, of_plain.step(1e-2).norm, 1e-11);
        }
        const auto expected = plain->named_parameters();
        for (const auto& item : net->named_parameters())
          EXPECT_LT(largest_error(whole(item.value()), whole(expected[item.key()])), 1e-11) << item.key();
      }
  });
}

TEST(Distribute, keeps_shards_only_where_others_have_copies) {
  for_each_world({1, 2, 3, 4}, [](const Communicator& world) {
    using ::testing::HasSubstr;
    for (const Case& one : cases(world.size())) {
      auto net = std::make_shared<NetImpl>(kWords, kFeatures, kHeads);
      const Grid grid(world, one.axes);
      auto model = distribute(net, grid, one.cuts);
      SCOPED_TRACE(grid.shape().to_string() + model.to_string());
      const auto pieces = model.parameters();
      const std::vector<adjoin::nn::Parameter> shards = model.shards();
      ASSERT_EQ(shards.size(), pieces.size());
      const at::Tensor ids = ids_of(0);
      loss_of(model.forward({}, ids), ids).backward();
      Optimizer(shards, adamw()).step(1e-2);  // which frees what is whole
      std::vector<double> elements;
      for (size_t i = 0; i < shards.size(); ++i) {
        elements.push_back(static_cast<double>(shards[i].tensor.numel()));
        const bool is_cut = adjoin::nn::ranks_of_copies(pieces[i]).size() > 1;
        EXPECT_NE(shards[i].tensor.is_same(pieces[i].tensor), is_cut);
        if (is_cut && TORCH_VERSION_MINOR > 11)  // LibTorch 2.11 cannot say it
          EXPECT_THAT(thrown_by<std::exception>([&] { (void)pieces[i].tensor.data_ptr(); }),
                      HasSubstr("has values only while an operation of LibTorch reads it"));
      }
      world.all_reduce(buffer(elements));
      for (size_t i = 0; i < shards.size(); ++i) EXPECT_EQ(elements[i], net->parameters()[i].numel()) << shards[i].name;
      EXPECT_THAT(thrown_by<InvalidArgument>([&] { (void)model.trained(); }), HasSubstr("got both"));
    }
  });
}

}  // namespace
}  // namespace adjoin::parallel::plain_modules
