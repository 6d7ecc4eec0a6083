#pragma once

#include <string>

#include "adjoin/train/configuration.hpp"
#include "adjoin/train/text/text_source.hpp"

namespace adjoin::train {

/// The texts that an evaluation measures.
struct MeasuredTexts {
  TextSource source;
  std::string name;  // "all texts in more.csv"
};

/// The texts that the options of an evaluation name: those of `test`, all of them if it has no test part; else the test part of
/// `given.data`, which is what training held out if the model was trained on it; else the test texts of the training run.
/// Warns if the model was trained on them.
/// `run`: the configuration of the model, `model`: its folder.
/// Throws: InvalidArgument if the options name none, and those of the run are missing
MeasuredTexts measured_texts(const TextSource& given, const std::string& test, const Configuration& run,
                             const std::string& model);

}  // namespace adjoin::train
