#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "adjoin/train/task.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {

/// Where texts come from and what becomes of the predictions of each time's; both are called on rank 0 alone.
struct Conversation {
  std::function<std::vector<std::string>()> next;  // none at the end
  std::function<void(std::span<const Prediction>)> answer;
};

/// What a trained model predicts of texts, on any layout; those that come at once are computed as one batch.
/// `make` gives a task of one's own, whose take_texts and predictions are used.
/// Throws: InvalidArgument as open_model and load_state do, and for a text that the task refuses, "text 3: …", after the
///         answers to those before it
void predict(const ModelUse& options, const Conversation& conversation, const TaskMaker& make = {});

}  // namespace adjoin::train
