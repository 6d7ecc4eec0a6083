#include "adjoin/train/predictor.hpp"

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
  TextClassification& task = *saved_.task;
  data::TokenStoreBuilder builder(task.tokenizer().size());
  for (const std::string& text : texts)
    builder.add(data::encode_review(task.tokenizer(), text, saved_.configuration.sequence), /*label=*/0);
  task.set_test(builder.finish());
  std::vector<int64_t> all(texts.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  const MicroBatch batch = task.micro_batch(data::Part::test, all, {0, std::ssize(all)}, {});
  const auto [probabilities, classes] = at::softmax(trainer_.output(batch), -1).max(-1);
  std::vector<Prediction> predictions;
  for (const int64_t i : all) {
    const auto probability = probabilities[i].item<double>();
    if (!std::isfinite(probability)) throw Error("the model's scores are not finite");
    predictions.push_back({task.classes().name(classes[i].item<int64_t>()), probability});
  }
  return predictions;
}

}  // namespace adjoin::train
