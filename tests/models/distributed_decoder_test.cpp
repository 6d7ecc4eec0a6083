// The decoder of examples/networks, a plain module of LibTorch, on many workers, against models::decoder on one.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "adjoin/models/decoder.hpp"
#include "adjoin/models/model.hpp"
#include "adjoin/movement/global_tensor.hpp"
#include "adjoin/nn/cross_entropy.hpp"
#include "adjoin/nn/init.hpp"
#include "adjoin/parallel/distribute.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "adjoin/parallel/pipelined.hpp"
#include "adjoin/pipeline/schedule.hpp"
#include "examples/networks/decoder.hpp"
#include "tests/support/decoders.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::models::distributed_decoder {
namespace {

using namespace adjoin::testing;

constexpr int64_t kWords = 23, kHidden = 24, kHeads = 6, kBatch = 4, kTokens = 7;

/// All that is to be said for tensor parallelism.
parallel::Cuts tensor_parallel(std::vector<std::string> inputs = {}) {
  return {{{"embedding.weight", "words over tp"},
           {"*.qkv.weight", "outputs over tp in 3 parts by 4"},
           {"*.out.weight", "inputs over tp by 4"},
           {"*.up.weight", "outputs over tp"},
           {"*.down.weight", "inputs over tp"}},
          std::move(inputs)};
}

struct Case {
  std::vector<GridShape::Axis> axes;
  parallel::Cuts cuts;
};
std::vector<Case> cases(int workers) {
  std::vector<Case> all{{{{"tp", workers}}, tensor_parallel()},
                        {{{"tp", workers}}, tensor_parallel({"tokens over tp"})},
                        {{{"dp", workers}}, {{}, {"samples over dp"}}}};
  if (workers % 2 == 0) all.push_back({{{"dp", 2}, {"tp", workers / 2}}, tensor_parallel({"samples over dp"})});
  return all;
}

const example::DecoderOptions kWithoutDropout{kWords, 2, kHidden, kHeads, /*dropout=*/0};

at::Tensor text_of(int step) {
  const at::Tensor document = at::arange(kBatch).unsqueeze(1), token = at::arange(kTokens + 1);
  return (7 * document + token * token + (3 + step) * token).remainder(kWords);
}

at::Tensor loss_of(Model& model, const at::Tensor& text) {
  const ForwardPass pass{{.number = 1, .training = true},
                         LocalTokenRows(TokenRows::balanced(std::vector<int64_t>(kBatch, kTokens), 1))};
  const at::Tensor scores = model(text.narrow(1, 0, kTokens).flatten(), pass);
  return nn::vocabulary_parallel_cross_entropy(scores, text.narrow(1, 1, kTokens).flatten(), Communicator(),
                                               Split::balanced(scores.size(1), 1, 0)) /
         static_cast<double>(scores.size(0));
}

constexpr int kSteps = 5;

/// The losses of the models' decoder.
std::vector<double> losses_on_one_worker() {
  std::vector<double> losses;
  DecoderPair pair(kWithoutDropout);
  parallel::Optimizer optimizer(nn::parameters_of(*pair.ours), parallel::adamw(), {.weight_decay = 0.1, .clip = 0.5});
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor loss = loss_of(pair.ours, text_of(step));
    losses.push_back(loss.item<double>());
    loss.backward();
    optimizer.step(1e-2);
  }
  return losses;
}

TEST(DistributedDecoder, trains_in_every_layout_as_the_models_decoder_does_on_one_worker) {
  const std::vector<double> expected = losses_on_one_worker();
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    for (const Case& one : cases(world.size()))
      for (const int zero : {1, 2, 3}) {
        DecoderPair pair(kWithoutDropout);
        auto model = parallel::distribute(pair.plain.ptr(), Grid(world, one.axes), one.cuts);
        SCOPED_TRACE(model.to_string());
        parallel::Optimizer optimizer(zero == 3 ? model.shards() : model.trained(), parallel::adamw(),
                                      {.weight_decay = 0.1, .clip = 0.5, .zero = std::min(zero, 2)});
        for (int step = 0; step < kSteps; ++step) {
          const at::Tensor text = text_of(step);
          const at::Tensor scores = model.forward({.seed = 1, .number = step}, text.narrow(1, 0, kTokens));
          const at::Tensor loss = at::cross_entropy_loss(scores.flatten(0, 1), text.narrow(1, 1, kTokens).flatten());
          EXPECT_NEAR(loss.item<double>(), expected[static_cast<size_t>(step)], 1e-9) << "step " << step;
          loss.backward();
          optimizer.step(1e-2);
        }
      }
  });
}

/// All that is to be said for a pipeline.
std::vector<parallel::Child> children_of(example::Decoder net) {
  std::vector<parallel::Child> children = parallel::children_of("blocks", net->blocks());
  children.insert(children.begin(), {"embedding", [net](const at::Tensor& ids) mutable { return net->embed(ids); }});
  children.push_back(
      {"head", [net](const at::Tensor& x) mutable { return net->score(x); }, {"norm.*", "embedding.weight"}});
  return children;
}

TEST(DistributedDecoder, trains_in_a_pipeline_as_the_models_decoder_does_on_one_worker) {
  const std::vector<double> expected = losses_on_one_worker();
  for_each_world({2, 4}, [&](const Communicator& world) {
    constexpr int kMicroBatches = 2, kSamples = kBatch / kMicroBatches;
    const Grid grid(world, {{"pp", 2}, {"tp", world.size() / 2}});
    for (const int zero : {0, 1, 2}) {
      DecoderPair pair(kWithoutDropout);
      parallel::Pipelined model(*pair.plain, children_of(pair.plain), grid,
                                pipeline::make_schedule("1f1b", 2, kMicroBatches), {.cuts = tensor_parallel()});
      parallel::Optimizer optimizer(model.trained(), parallel::adamw(),
                                    {.weight_decay = 0.1, .clip = 0.5, .zero = zero, .workers = world});
      for (int step = 0; step < kSteps; ++step) {
        std::vector<parallel::Bundle> inputs;
        std::vector<at::Tensor> targets;
        for (const at::Tensor& text : text_of(step).split(kSamples)) {
          inputs.emplace_back(text.narrow(1, 0, kTokens));
          targets.push_back(text.narrow(1, 1, kTokens).flatten());
        }
        const auto loss = [&](int batch, const at::Tensor& scores) {
          return at::cross_entropy_loss(scores.flatten(0, 1), targets[static_cast<size_t>(batch)]) / kMicroBatches;
        };
        EXPECT_NEAR(model.run({.seed = 1, .number = step}, inputs, loss), expected[static_cast<size_t>(step)], 1e-9)
            << "step " << step << ", zero " << zero << "\n"
            << model.to_string();
        optimizer.step(1e-2);
      }
    }
  });
}

/// The scores of a decoder with dropout, in a layout.
at::Tensor dropped_scores(const Grid& grid, parallel::Cuts cuts, int64_t step) {
  example::Decoder plain(example::DecoderOptions{kWords, 2, kHidden, kHeads, /*dropout=*/0.2});
  plain->to(at::kDouble);
  DecoderPair pair(kWithoutDropout);
  {
    const at::NoGradGuard no_gradient;
    for (const auto& weight : plain->named_parameters()) weight->copy_(pair.plain->named_parameters()[weight.key()]);
  }
  auto model = parallel::distribute(plain.ptr(), grid, std::move(cuts));
  return whole(model.forward({.seed = 5, .number = step}, text_of(0).narrow(1, 0, kTokens)));
}

TEST(DistributedDecoder, drops_the_same_elements_in_every_layout) {
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    const Grid alone(Communicator(), {{"tp", 1}});
    const at::Tensor expected = dropped_scores(alone, {}, 3);
    EXPECT_GT((dropped_scores(alone, {}, 4) - expected).abs().max().item<double>(), 1e-3);
    for (const Case& one : cases(world.size()))
      EXPECT_LT((dropped_scores(Grid(world, one.axes), one.cuts, 3) - expected).abs().max().item<double>(), 1e-12);
  });
}

}  // namespace
}  // namespace adjoin::models::distributed_decoder
