#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "adjoin/task/measure.hpp"

namespace adjoin::train {

/// The rows that went to each expert, by the name of a segment that has experts.
using RowsOfExperts = std::map<std::string, std::vector<int64_t>>;

/// What all workers know about a step of the global batch.
struct StepResult {
  double loss = 0;  // mean over the batch
  std::vector<Measure> measures{};
  double gradient_norm = 0;  // of all gradients, before clipping
  int64_t tokens = 0;
  double flops = 0;  // operations of the model, forward and backward; 0 if its segments do not give their cost
  bool interrupted = false;
  bool skipped = false;  // a gradient was not finite, so the weights are unchanged
};

/// The exact mean over a part's samples, unless it was interrupted before it had seen all.
struct Evaluation {
  double loss = 0;
  std::vector<Measure> measures{};
  std::vector<double> tally{};  // the task's tally, of all samples
  RowsOfExperts expert_rows{};  // of all samples
  bool interrupted = false;
};

}  // namespace adjoin::train
