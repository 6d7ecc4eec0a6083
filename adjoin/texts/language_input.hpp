#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "adjoin/data/document_tokens.hpp"
#include "adjoin/data/tokenizer/text_vocabulary.hpp"
#include "adjoin/task/configuration.hpp"
#include "adjoin/task/text_source.hpp"

namespace adjoin::train {

/// What a language model is trained on.
struct LanguageInput {
  std::shared_ptr<const data::TextVocabulary> vocabulary;
  data::DocumentTokens train, test;
  std::string texts_file = {};  // the content of kTextsFile; "" if the model's folder has none
};

/// The vocabulary in a model's folder.
std::shared_ptr<const data::TextVocabulary> read_vocabulary(const std::filesystem::path& folder);

/// Reads the documents that the configuration names, or maps their tokens: from a folder that `adjoin tokenize` wrote, or from
/// the cache, which keeps the tokens of documents. The vocabulary is that of a resumed run's checkpoint, that of a folder of
/// tokens, or the one that `vocab` names: bytes, learned from the training documents, or a file. Prints how much there is.
/// Throws: InvalidArgument as the readers of documents and vocabularies do
LanguageInput read_language_input(const Configuration& configuration);

/// The tokens of the test part of a source.
/// Throws: as above, and where a folder of tokens has another vocabulary
data::DocumentTokens read_language_test(const TextSource& source, const data::TextVocabulary& vocabulary);

}  // namespace adjoin::train
