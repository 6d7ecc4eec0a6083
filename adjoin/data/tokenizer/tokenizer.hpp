#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/data/tokenizer/text_vocabulary.hpp"

namespace adjoin::data {

struct TokenizerParts;
enum class Specials;

/// A tokenizer of transformers. Added tokens are taken out of a text; what is between them is normalised and cut into words, and
/// a model turns each word into ids. Copies share their parts.
class Tokenizer : public TextVocabulary {
 public:
  explicit Tokenizer(TokenizerParts parts);

  int64_t size() const override;
  int64_t end_of_document() const override { return ends().front(); }
  std::vector<int64_t> ends() const override;
  std::vector<int64_t> beginning() const override;
  const std::string& content() const override;
  std::string_view bytes_of(int64_t id) const override;

  using TextVocabulary::encode;
  void encode(std::string_view text, std::vector<int64_t>& ids) const override;
  void encode_with_special_tokens(std::string_view text, std::vector<int64_t>& ids) const override;
  std::vector<int64_t> encode_prompt(std::string_view text) const override { return encode_around(text, kNoLimit); }

 protected:
  static constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

  /// The ids of a prompt; of its text only so many that there are at most `limit`.
  std::vector<int64_t> encode_around(std::string_view text, size_t limit) const;
  const TokenizerParts& parts() const { return *parts_; }

 private:
  void encode(std::string_view text, Specials specials, std::vector<int64_t>& ids, size_t limit = kNoLimit) const;

  std::shared_ptr<const TokenizerParts> parts_;
};

}  // namespace adjoin::data
