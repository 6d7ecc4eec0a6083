#include "adjoin/train/tasks.hpp"

#include <algorithm>

#include "adjoin/base/error.hpp"
#include "adjoin/data/tokenizer/text_vocabulary.hpp"
#include "adjoin/data/tokenizer/wordpiece.hpp"
#include "adjoin/texts/language_modelling.hpp"
#include "adjoin/texts/text_classification.hpp"
#include "adjoin/texts/trained_texts.hpp"

namespace adjoin::train {
namespace {

// Another task needs its own file and a row here.
const TaskKind kKinds[] = {
    {ModelKind::classifier, TextClassification::make, TextClassification::open},
    {ModelKind::decoder, LanguageModelling::make, LanguageModelling::open},
};

}  // namespace

std::vector<std::string> files_of_tasks() {
  return {data::WordPiece::kPlainFile, data::WordPiece::kFile, kClassesFile, kTextsFile, data::kVocabularyFile};
}

std::unique_ptr<Task> make_task(Configuration& configuration, const TaskMaker& make) {
  if (make && configuration.task.empty()) configuration.task = kOwnTask;  // until the task says its name
  validate(configuration);
  std::unique_ptr<Task> task = make ? make(configuration) : task_kind(configuration).make(configuration);
  require(task != nullptr, "the function that makes the task gave none");
  configuration.task = task->name();
  if (make) validate(configuration);  // as the task that it is
  check_rows(configuration, *task);
  return task;
}

const TaskKind& task_kind(const Configuration& configuration) {
  check_known(configuration, "the configuration");
  return *std::ranges::find(kKinds, configuration.model, &TaskKind::model);
}

}  // namespace adjoin::train
