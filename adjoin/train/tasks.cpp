#include "adjoin/train/tasks.hpp"

#include <algorithm>

#include "adjoin/base/error.hpp"
#include "adjoin/data/text_vocabulary.hpp"
#include "adjoin/data/wordpiece.hpp"
#include "adjoin/train/text/language_modelling.hpp"
#include "adjoin/train/text/text_classification.hpp"

namespace adjoin::train {
namespace {

// Another task needs its own file and a row here.
constexpr TaskKind kKinds[] = {
    {"classifier", TextClassification::make, TextClassification::open},
    {"decoder", LanguageModelling::make, LanguageModelling::open},
};

}  // namespace

std::vector<std::string> files_of_tasks() {
  return {data::WordPiece::kPlainFile, data::WordPiece::kFile, kClassesFile, data::kVocabularyFile};
}

const TaskKind& task_kind(const Configuration& configuration) {
  const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const TaskKind& k) { return k.model == configuration.model; });
  require(kind != std::end(kKinds), [&] { return "--model is \"" + configuration.model + "\", which is not a task"; });
  return *kind;
}

}  // namespace adjoin::train
