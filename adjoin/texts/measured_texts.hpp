#pragma once

#include <string>

#include "adjoin/task/configuration.hpp"
#include "adjoin/task/text_source.hpp"

namespace adjoin::train {

/// The texts that an evaluation measures.
struct MeasuredTexts {
  TextSource source;
  std::string name;  // "all texts in more.csv"
};

/// What is known of the training of a model.
struct TrainedModel {
  const Configuration& configuration;
  std::string folder;
  std::string texts_file;  // the content of kTextsFile
};

/// The texts that the options of an evaluation name: those of `test`, all of them if it has no test part; else the test part of
/// `given.data`, which is what training held out if the model was trained on the same texts, wherever they lie; else the test
/// texts of the training run.
/// Warns if the model was trained on them, and if the run's texts have changed, so that this is not known.
/// Throws: InvalidArgument if the options name none, and those of the run are missing
MeasuredTexts measured_texts(const TextSource& given, const std::string& test, const TrainedModel& model);

}  // namespace adjoin::train
