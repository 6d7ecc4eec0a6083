#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "adjoin/data/document_tokens.hpp"
#include "adjoin/data/documents.hpp"
#include "adjoin/data/tokenizer/text_vocabulary.hpp"

namespace adjoin::data {

/// Documents as tokens in a folder: vocab.model is the vocabulary, train.tokens and test.tokens are the parts.
struct TokenFolder {
  std::shared_ptr<const TextVocabulary> vocabulary;
  DocumentTokens train, test;
};

/// Whether a folder holds documents as tokens.
bool is_token_folder(const std::string& path);

/// The file of a part in such a folder.
std::filesystem::path file_of_tokens(const std::filesystem::path& folder, Part part);

/// Maps the tokens of a folder. Cost: reading the vocabulary, however much text there is
/// Throws: InvalidArgument where a file is missing, damaged, or of another vocabulary
TokenFolder open_token_folder(const std::string& path);

/// Throws: InvalidArgument where write_token_folder would because of what is at its place
void require_free_place(const std::string& path);

/// The sizes of a folder's parts.
struct FolderCounts {
  DocumentCounts train, test;
};

/// Writes such a folder beside its place, and then moves it there as a whole, so that there is never half of one.
/// Cost: memory of the longest document
/// Throws: InvalidArgument where its place is taken (an empty folder is allowed), and as the documents' readers do; IoError
FolderCounts write_token_folder(const std::string& path, const Documents& documents, const TextVocabulary& vocabulary);

}  // namespace adjoin::data
