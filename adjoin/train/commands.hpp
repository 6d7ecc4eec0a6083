#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "adjoin/task/configuration.hpp"
#include "adjoin/task/task_maker.hpp"
#include "adjoin/task/text_source.hpp"
#include "adjoin/train/results.hpp"
#include "adjoin/train/workers.hpp"

namespace adjoin::train {

/// `adjoin train`: trains, evaluates, and writes the output folder. With `make` it trains your own task.
///
/// `resume` may be "auto", as for the program. A resumed run takes everything from `configuration`; `configuration_to_resume`
/// (resume.hpp) gives that of the run itself.
/// Throws: InvalidArgument before anything is written; Interrupted after the checkpoint has been written.
void train(const Configuration& configuration, const TaskMaker& make = {});

/// The options of `adjoin evaluate`.
struct EvaluateOptions : ModelUse {
  TextSource source;   // column names default to those of the training run
  std::string test{};  // a file or folder of test texts, instead of the test part of the source
  int64_t batch = 0;   // samples computed at once, over all ranks; 0: as in the training run
};

struct EvaluationResult {
  int64_t samples = 0;  // of the test part
  Evaluation evaluation;
  std::string report;  // what the task says of the evaluation, in at most 80 columns, and as numbers by name
  nlohmann::ordered_json details;
  double seconds = 0;
  std::string texts{};  // which texts were evaluated: "all texts in more.csv"; "" for your own task's
};

/// The mean loss and the measures of a trained model over the test samples; the same on every process of an MPI job. If the
/// options name no texts, they are those that training held out (measured_texts). For a model of your own task, `make` gives the
/// task; its test part is used unless the options name texts.
/// Throws: Error where the loss is not finite
EvaluationResult evaluate(const EvaluateOptions& options, const TaskMaker& make = {});

}  // namespace adjoin::train
