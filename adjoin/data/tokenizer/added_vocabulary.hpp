#pragma once

#include <map>
#include <string>
#include <vector>

#include "adjoin/data/tokenizer/tokenizer_json.hpp"

namespace adjoin::data {

/// The added tokens of a tokenizer while tokens are added to it, with the ids that the tokenizers package (0.23) gives them:
/// that of the piece with this text, or the next one, which is the number of pieces or one above the largest id of an added
/// token. What a file says of ids does not count.
class AddedVocabulary {
 public:
  /// `pieces`: the vocabulary of the model, an object of texts and ids, which must live as long as this.
  explicit AddedVocabulary(const TokenizerJson& pieces) : pieces_(pieces) {}

  /// A token that is there already gets the new properties; once special, it stays so.
  void add(AddedToken token);

  /// The id of a text; -1 if there is none.
  int64_t id_of(const std::string& text) const;
  /// The tokens by id.
  std::vector<AddedToken> tokens() const;

 private:
  const TokenizerJson& pieces_;
  std::map<std::string, int64_t> ids_;
  std::map<int64_t, AddedToken> tokens_;
};

/// The post-processor that puts a token before and one behind each text; "": none. Between two texts BERT has only the token
/// behind the first.
TokenizerJson template_of(const std::string& before, const std::string& behind, const AddedVocabulary& added,
                          bool is_berts);

}  // namespace adjoin::data
