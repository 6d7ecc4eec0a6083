#include "adjoin/train/tasks.hpp"

#include <algorithm>

#include "adjoin/base/error.hpp"
#include "adjoin/data/tokenizer/text_vocabulary.hpp"
#include "adjoin/data/tokenizer/wordpiece.hpp"
#include "adjoin/tensors/decoder_program.hpp"
#include "adjoin/tensors/tensor_task.hpp"
#include "adjoin/tensors/text_program.hpp"
#include "adjoin/texts/language_modelling.hpp"
#include "adjoin/texts/text_classification.hpp"
#include "adjoin/texts/trained_texts.hpp"
#include "adjoin/train/training_order.hpp"

namespace adjoin::train {
namespace {

// Another task needs its own file and a row here.
const TaskKind kKinds[] = {
    {ModelKind::classifier, TextClassification::make, TextClassification::open},
    {ModelKind::decoder, LanguageModelling::make, LanguageModelling::open},
};
const TaskKind kTensorPrograms{ModelKind::classifier, TensorTask::make, TensorTask::open};
const TaskKind kDecoderPrograms{ModelKind::decoder, DecoderProgram::make, DecoderProgram::open};
const TaskKind kTextPrograms{ModelKind::classifier, TextProgram::make, TextProgram::open};

}  // namespace

std::vector<std::string> files_of_tasks() {
  return {data::WordPiece::kPlainFile, data::WordPiece::kFile, kClassesFile, kTextsFile, data::kVocabularyFile};
}

std::unique_ptr<Task> make_task(Configuration& configuration, const TaskMaker& make) {
  if (make && configuration.task.empty()) configuration.task = kOwnTask;  // until the task says its name
  Configuration unnamed = configuration;
  if (make) unnamed.same_bits = "off";  // which depends on whose task it is
  validate(unnamed);
  std::unique_ptr<Task> task = make ? make(configuration) : task_kind(configuration).make(configuration);
  require(task != nullptr, "the function that makes the task gave none");
  configuration.task = task->name();
  if (make) validate(configuration);  // as the task that it is
  check_rows(configuration, *task);
  if (configuration.has_program()) check_batches(configuration, *task);
  return task;
}

const TaskKind& task_kind(const Configuration& configuration) {
  check_known(configuration, "the configuration");
  if (configuration.has_program())
    return configuration.is_of_tensors() ? kTensorPrograms
           : configuration.is_decoder()  ? kDecoderPrograms
                                         : kTextPrograms;
  return *std::ranges::find(kKinds, configuration.model, &TaskKind::model);
}

}  // namespace adjoin::train
