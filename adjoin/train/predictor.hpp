#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "adjoin/task/prediction.hpp"
#include "adjoin/task/task_maker.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {

/// Gives the texts to predict, a group at a time, and gets the predictions of each group; both functions are called only on
/// rank 0.
struct Conversation {
  std::function<std::vector<std::string>()> next;  // returns no texts at the end
  std::function<void(std::span<const Prediction>)> answer;
};

/// Predicts texts by a trained model, on any layout; the texts of one group are computed as one batch. `make` gives your own
/// task, whose take_texts and predictions are used.
/// Throws: InvalidArgument as open_model and load_state do, and for a text that the task refuses, "text 3: …", after the
///         answers to the texts before it
void predict(const ModelUse& options, const Conversation& conversation, const TaskMaker& make = {});

}  // namespace adjoin::train
