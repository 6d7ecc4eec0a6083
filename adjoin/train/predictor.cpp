#include "adjoin/train/predictor.hpp"

#include <ATen/ops/max.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <numeric>

#include "adjoin/base/error.hpp"
#include "adjoin/data/encode_review.hpp"

namespace adjoin::train {
namespace {

/// The configuration of a trained model for one worker.
Configuration alone(Configuration configuration) {
  configuration.dp = configuration.tp = 1;
  return configuration;
}

}  // namespace

Predictor::Predictor(const std::string& model)
    : saved_(open_model(model)), trainer_(load_trainer(saved_, alone(saved_.configuration), Communicator())) {}

std::vector<Prediction> Predictor::predict(std::span<const std::string> texts) {
  data::TokenStoreBuilder builder(saved_.tokenizer.size());
  for (const std::string& text : texts)
    builder.add(data::encode_review(saved_.tokenizer, text, saved_.configuration.sequence), /*label=*/0);
  std::vector<int64_t> all(texts.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  const Batch batch = make_batch(builder.finish(), all, {0, std::ssize(all)});
  const auto [probabilities, classes] = at::softmax(trainer_.scores(batch), -1).max(-1);
  std::vector<Prediction> predictions;
  for (const int64_t i : all) {
    const auto probability = probabilities[i].item<double>();
    if (!std::isfinite(probability)) throw Error("the model's scores are not finite");
    predictions.push_back({saved_.classes.name(classes[i].item<int64_t>()), probability});
  }
  return predictions;
}

}  // namespace adjoin::train
