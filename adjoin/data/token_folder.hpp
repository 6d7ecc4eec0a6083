#pragma once

#include <memory>
#include <string>

#include "adjoin/data/document_tokens.hpp"
#include "adjoin/data/documents.hpp"
#include "adjoin/data/text_vocabulary.hpp"

namespace adjoin::data {

/// Documents as tokens in a folder: vocab.model, the vocabulary; train.tokens and test.tokens, a part each.
struct TokenFolder {
  std::shared_ptr<const TextVocabulary> vocabulary;
  DocumentTokens train, test;
};

/// Whether a folder holds documents as tokens.
bool is_token_folder(const std::string& path);

/// Maps the tokens of a folder. Cost: that of reading the vocabulary, however much text it is
/// Throws: InvalidArgument where a file is missing, damaged, or of another vocabulary
TokenFolder open_token_folder(const std::string& path);

/// Throws: InvalidArgument where write_token_folder would for what stands at its place
void require_free_place(const std::string& path);

/// What the parts of a folder came to.
struct FolderCounts {
  DocumentCounts train, test;
};

/// Writes such a folder beside its place, and then puts it there as a whole, so that there is never half of one.
/// Cost: memory of the longest document
/// Throws: InvalidArgument where its place is taken, but by an empty folder, and as the documents' readers do; IoError
FolderCounts write_token_folder(const std::string& path, const Documents& documents, const TextVocabulary& vocabulary);

}  // namespace adjoin::data
