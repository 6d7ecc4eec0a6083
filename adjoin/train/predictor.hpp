#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "adjoin/train/grid_sizes.hpp"
#include "adjoin/train/task.hpp"

namespace adjoin::train {

/// What `adjoin predict` is asked.
struct PredictOptions {
  std::string model;  // the output folder of a training run
  GridSizes grid;
  std::string backend = "auto";
  int64_t threads_per_rank = 0;
};

/// Where texts come from and what becomes of the predictions of each time's; both are called on rank 0 alone.
struct Conversation {
  std::function<std::vector<std::string>()> next;  // none at the end
  std::function<void(std::span<const Prediction>)> answer;
};

/// What a trained model predicts of texts, on any layout; those that come at once are computed as one batch.
/// `make` gives a task of one's own, whose take_texts and predictions are used.
/// Throws: InvalidArgument as open_model and load_weights do, and for a text that the task refuses, "text 3: …", after the
///         answers to those before it
void predict(const PredictOptions& options, const Conversation& conversation, const TaskMaker& make = {});

}  // namespace adjoin::train
