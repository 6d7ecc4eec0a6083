#pragma once

#include <cstdint>
#include <vector>

#include "adjoin/data/document_tokens.hpp"
#include "adjoin/data/samples.hpp"

namespace adjoin::data {

/// What a language model reads at once, and what it must predict after each token.
struct Sequence {
  std::vector<int64_t> ids, targets;  // a target for each id: the token that follows it in its document
  std::vector<int64_t> lengths;       // of the pieces, each of one document, which do not see each other; all above 0
};

/// Documents cut into sequences. The run of their tokens is cut every `length` tokens; the last sequence has the rest. The end
/// of a document is the target of its last token, but not an id of a sequence, as nothing follows it. So a sequence has at most
/// `length` ids, and one less for each document that ends inside it.
///
/// No sequence or document is kept in memory, so memory does not grow with their number.
class Sequences {
 public:
  /// Throws: InvalidArgument where the length is below 2, or where the tokens of a training part do not fill one sequence; a
  ///         test part may be shorter
  Sequences(DocumentTokens documents, int64_t length, Part part);

  int64_t size() const { return (inputs() + length_ - 1) / length_; }
  const DocumentTokens& documents() const { return documents_; }

  /// Cost: reads only the tokens of this sequence
  /// Throws: InvalidArgument where there is no such sequence, or where one of its tokens is not in the vocabulary
  Sequence operator[](int64_t sequence) const;

 private:
  int64_t inputs() const { return documents_.counts.tokens - 1; }  // the last token is only a target

  DocumentTokens documents_;
  int64_t length_;
};

}  // namespace adjoin::data
