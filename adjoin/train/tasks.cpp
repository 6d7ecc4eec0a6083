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
constexpr TaskKind kKinds[] = {
    {"classifier", TextClassification::make, TextClassification::open},
    {"decoder", LanguageModelling::make, LanguageModelling::open},
};

}  // namespace

std::vector<std::string> files_of_tasks() {
  return {data::WordPiece::kPlainFile, data::WordPiece::kFile, kClassesFile, kTextsFile, data::kVocabularyFile};
}

void check_known(const Configuration& configuration, const std::string& where) {
  require(configuration.task.empty(), [&] {
    return where + ": is of the task \"" + configuration.task +
           "\" of another program, which alone can continue, evaluate and use it (train::train, train::evaluate, "
           "train::predict); adjoin report, watch and checkpoint read its runs";
  });
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
  const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const TaskKind& k) { return k.model == configuration.model; });
  require(kind != std::end(kKinds), [&] { return "--model is \"" + configuration.model + "\", which is not a task"; });
  return *kind;
}

}  // namespace adjoin::train
