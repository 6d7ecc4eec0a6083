#include "adjoin/models/text_classifier.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "adjoin/base/error.hpp"
#include "adjoin/models/model.hpp"
#include "tests/support/one_worker.hpp"
#include "tests/support/worlds.hpp"

namespace adjoin::models {
namespace {

using namespace adjoin::testing;

TransformerOptions bert_base() {
  return {.words = 30522, .layers = 12, .hidden = 768, .heads = 12};
}
TransformerOptions bert_large() {
  return {.words = 30522, .layers = 24, .hidden = 1024, .heads = 16};
}

int64_t parameters_of_a_rank(const TransformerOptions& options, const Communicator& world) {
  int64_t count = 0;
  for (const nn::Parameter& p :
       nn::parameters_of(*Model(text_classifier(options, {}), on_tp(world), at::device(at::kMeta))))
    count += p.tensor.numel();
  return count;
}

// (words h + 12 L h^2 + h^2 + 2 h) / ranks + 4 L h: embedding, attention and feed-forward, classifier, norms.
TEST(TextClassifier, has_the_parameters_of_bert_base_on_1_2_and_4_ranks) {
  const std::map<int, int64_t> expected{{1, 109'003'776}, {2, 54'520'320}, {4, 27'278'592}};
  for_each_world({1, 2, 4}, [&](const Communicator& world) {
    if (!expected.contains(world.size())) return;
    EXPECT_EQ(parameters_of_a_rank(bert_base(), world), expected.at(world.size()));
  });
}

TEST(TextClassifier, has_the_parameters_of_bert_large_on_1_2_and_4_ranks) {
  const std::map<int, int64_t> expected{{1, 334'393'344}, {2, 167'245'824}, {4, 83'672'064}};
  for_each_world({1, 2, 4}, [&](const Communicator& world) {
    if (!expected.contains(world.size())) return;
    EXPECT_EQ(parameters_of_a_rank(bert_large(), world), expected.at(world.size()));
  });
}

enum class Kind { course, all_options, bert };
constexpr Kind kKinds[] = {Kind::course, Kind::all_options, Kind::bert};

TransformerOptions small(Kind kind) {
  TransformerOptions options{.words = 23, .layers = 2, .hidden = 20, .heads = 5, .dropout = 0.2};
  if (kind == Kind::course) {
    options.score_scale = TransformerOptions::ScoreScale::hidden;
    return options;
  }
  options.attention_dropout = 0.1;
  options.context = 6;
  options.positions = TransformerOptions::Positions::learned;
  options.final_norm = kind == Kind::all_options;
  if (kind == Kind::bert) {
    options.token_types = 2;
    options.norm_place = TransformerOptions::NormPlace::after;
    options.attention_bias = TransformerOptions::AttentionBias::all;
    options.embedding_norm = options.feed_forward_bias = true;
    options.inner = 23;
    options.embedding_dropout = 0.2;
  } else {
    options.embedding_cut = nn::ParallelEmbeddingOptions::Cut::vocabulary;
  }
  return options;
}

ClassifierOptions head_of(Kind kind) {
  if (kind == Kind::bert) return {.classes = 3, .pooler = true, .dropout = 0.2};
  using Pooling = ClassifierOptions::Pooling;
  return {.pooling = kind == Kind::all_options ? Pooling::mean : Pooling::cls, .dropout = 0.2};
}

ForwardPass training(const std::vector<int64_t>& lengths, int64_t first_sample = 0) {
  return {{.seed = 1, .number = 2, .training = true, .first_sample = first_sample},
          LocalTokenRows(TokenRows::balanced(lengths, 1))};
}

Model small_model(Kind kind, const Grid& grid) {
  return Model(text_classifier(small(kind), head_of(kind)), grid, at::kDouble);
}

TEST(TextClassifier, of_every_kind_is_the_model_of_one_worker) {
  const at::Tensor ids = at::tensor({2, 7, 9, 3, 2, 11, 3, 2, 22, 3}, at::kLong);
  for_each_world({1, 2, 3, 4}, [&](const Communicator& world) {
    for (const Kind kind : kKinds)
      expect_same_as_one_worker(
          world, {1}, [&](const Grid& grid) { return small_model(kind, grid); },
          [&](Model& model, const at::Tensor& x) {
            return model(ids, training({4, 3, 3}, 4)) * x;
          });
  });
}

TEST(TextClassifier, gives_a_sample_the_same_scores_beside_others_of_any_length) {
  for (const Kind kind : kKinds) {
    Model model = small_model(kind, one_worker());
    nn::initialize(*model, 3);
    const at::Tensor ids = at::tensor({2, 7, 9, 3, 2, 11, 3}, at::kLong);
    const at::Tensor both = model(ids, training({4, 3}));
    EXPECT_TRUE(at::allclose(both.slice(0, 0, 1), model(ids.slice(0, 0, 4), training({4})), 1e-12, 1e-12));
    EXPECT_TRUE(at::allclose(both.slice(0, 1), model(ids.slice(0, 4), training({3}, 1)), 1e-12, 1e-12));
  }
}

TEST(TextClassifier, takes_a_worker_without_samples) {
  Model model = small_model(Kind::all_options, one_worker());
  nn::initialize(*model, 3);
  const at::Tensor scores = model(at::zeros({0}, at::kLong), training({}));
  EXPECT_EQ(scores.sizes(), (at::IntArrayRef{0, 2}));
  scores.sum().backward();
  for (const at::Tensor& parameter : model->parameters()) EXPECT_TRUE(parameter.grad().eq(0).all().item<bool>());
}

TEST(TextClassifier, refuses_more_ranks_than_heads) {
  for_each_world({3}, [](const Communicator& world) {
    if (world.size() < 3) return;
    TransformerOptions options = small(Kind::course);
    options.heads = 2;
    EXPECT_THROW(Model(text_classifier(options, {}), on_tp(world)), InvalidArgument);
  });
}

}  // namespace
}  // namespace adjoin::models
