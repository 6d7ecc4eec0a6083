#include "adjoin/train/task.hpp"

#include <nlohmann/json.hpp>

#include "adjoin/base/error.hpp"

namespace adjoin::train {

void Task::read_test(const TextSource& source) {
  throw InvalidArgument("--data " + source.data + ": the model's task reads no other data than its own");
}

void Task::take_texts(std::span<const std::string>) {
  throw InvalidArgument("the model's task does not read texts");
}

std::vector<Prediction> Task::predictions(const at::Tensor&, const MicroBatch&, const Grid&) const {
  throw InvalidArgument("the model's task says nothing of single samples");
}

nlohmann::ordered_json Task::details(std::span<const double>) const {
  return nlohmann::ordered_json::object();
}

}  // namespace adjoin::train
