#include "adjoin/train/predictor.hpp"

#include <ATen/ops/softmax.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "adjoin/base/error.hpp"

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
  std::vector<data::Review> reviews;
  for (const std::string& text : texts) reviews.push_back({text, 0});
  const Dataset dataset = tokenize(reviews, saved_.tokenizer, saved_.configuration.sequence);
  std::vector<int64_t> all(reviews.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  const Batch batch = make_batch(dataset, all, {0, std::ssize(all)});
  const at::Tensor probabilities = at::softmax(trainer_.scores(batch), -1);
  std::vector<Prediction> predictions;
  for (const int64_t i : all) {
    const double positive = probabilities[i][1].item<double>();
    if (!std::isfinite(positive)) throw Error("the model's scores are not finite");
    predictions.push_back({positive >= 0.5, std::max(positive, 1 - positive)});
  }
  return predictions;
}

}  // namespace adjoin::train
