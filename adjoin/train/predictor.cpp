#include "adjoin/train/predictor.hpp"

#include <numeric>

#include "adjoin/train/plan.hpp"

namespace adjoin::train {
Predictor::Predictor(const std::string& model)
    : saved_(open_model(model)), trainer_(load_trainer(saved_, on_plan(saved_.configuration, {}), Communicator())) {}

std::vector<Prediction> Predictor::predict(std::span<const std::string> texts) {
  saved_.task->take_texts(texts);
  std::vector<int64_t> all(texts.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  const MicroBatch batch = saved_.task->micro_batch(data::Part::test, all, {0, std::ssize(all)}, {});
  return saved_.task->predictions(trainer_.output(batch), batch, trainer_.grid());
}

}  // namespace adjoin::train
