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

/// The options of a prediction of tensors.
struct TensorPrediction : ModelUse {
  std::string data;   ///< tensors, as training reads them, of which only the program's inputs are needed
  std::string out;    ///< a file to write: NAME.npy, or any other as safetensors with one tensor, "y"
  int64_t batch = 0;  ///< samples computed at once over all ranks; 0: as in the training run
};

/// Writes what a program that was trained on tensors makes of others, one row for each sample; returns its shape.
/// Throws: InvalidArgument as open_model, and where the program does not take the tensors; IoError
std::vector<int64_t> predict(const TensorPrediction& options);

}  // namespace adjoin::train
