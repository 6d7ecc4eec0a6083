#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "adjoin/data/documents.hpp"
#include "adjoin/data/samples.hpp"
#include "adjoin/data/token_store.hpp"
#include "adjoin/data/tokenizer/subword_vocabulary.hpp"
#include "adjoin/data/tokenizer/text_vocabulary.hpp"

namespace adjoin::data {

/// The size of some documents.
struct DocumentCounts {
  int64_t documents = 0;
  int64_t bytes = 0;   // of their texts
  int64_t tokens = 0;  // including the beginnings and ends of the documents
};

/// Documents as one run of tokens: for each document its beginning, if the vocabulary has one, its text, and an end-of-document
/// token.
struct DocumentTokens {
  std::string name;   // the file
  TokenStore tokens;  // one sample
  DocumentCounts counts;
  int64_t words = 0;  // of the vocabulary; all tokens must be below
  int64_t end_of_document = 0;
};

/// A vocabulary of subwords, learned from the documents of the training part; of long text, from samples spread evenly over it.
/// Throws: InvalidArgument as learn_subwords and the documents' readers do
std::shared_ptr<const TextVocabulary> learn_subwords(const Documents& documents, const SubwordOptions& options);

/// Writes the documents into a token file, so that its place never holds half of one. The file's text names the vocabulary and
/// the size of the documents.
/// Cost: memory of the longest document
/// Throws: InvalidArgument as the reader does; IoError
DocumentCounts write_document_tokens(const std::filesystem::path& place, SampleReader& documents,
                                     const TextVocabulary& vocabulary);

/// The same in memory, which takes 8 bytes a token while the documents are read; messages about them use `name`.
DocumentTokens hold_document_tokens(const std::string& name, SampleReader& documents, const TextVocabulary& vocabulary);

/// Maps such a file. It looks only at the file's ends, so the time does not depend on its length.
/// Throws: InvalidArgument as map_token_file does, and where it does not hold documents in this vocabulary
DocumentTokens map_document_tokens(const std::filesystem::path& path, const TextVocabulary& vocabulary);

}  // namespace adjoin::data
