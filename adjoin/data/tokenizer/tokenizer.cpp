#include "adjoin/data/tokenizer/tokenizer.hpp"

#include <utility>

#include "adjoin/data/tokenizer/tokenizer_parts.hpp"

namespace adjoin::data {

Tokenizer::Tokenizer(TokenizerParts parts) {
  std::vector<AddedToken> in_text, in_normalized_text;
  for (AddedToken token : parts.added) {
    if (token.normalized) token.content = parts.normalizer(token.content);
    (token.normalized ? in_normalized_text : in_text).push_back(std::move(token));
  }
  parts.in_text = AddedTokens(std::move(in_text));
  parts.in_normalized_text = AddedTokens(std::move(in_normalized_text));
  parts_ = std::make_shared<const TokenizerParts>(std::move(parts));
}

int64_t Tokenizer::size() const {
  return std::ssize(parts_->bytes);
}

std::vector<int64_t> Tokenizer::ends() const {
  return parts_->ends;
}

std::vector<int64_t> Tokenizer::beginning() const {
  return parts_->around.before;
}

const std::string& Tokenizer::content() const {
  return parts_->content;
}

std::string_view Tokenizer::bytes_of(int64_t id) const {
  require_id(id);
  return parts_->bytes[static_cast<size_t>(id)];
}

void Tokenizer::encode(std::string_view text, std::vector<int64_t>& ids) const {
  encode(text, parts_->in_documents, ids);
}

void Tokenizer::encode_with_special_tokens(std::string_view text, std::vector<int64_t>& ids) const {
  encode(text, parts_->in_prompts, ids);
}

std::vector<int64_t> Tokenizer::encode_around(std::string_view text, size_t limit) const {
  std::vector<int64_t> ids = parts_->around.before;
  const std::vector<int64_t>& behind = parts_->around.behind;
  encode(text, parts_->in_prompts, ids, limit - behind.size());
  ids.insert(ids.end(), behind.begin(), behind.end());
  return ids;
}

void Tokenizer::encode(std::string_view text, Specials specials, std::vector<int64_t>& ids, size_t limit) const {
  const TokenizerParts& its = *parts_;
  const auto put_words = [&](std::string_view part, bool is_first) {
    its.words(part, is_first, [&](std::string_view word) {
      if (ids.size() < limit) std::visit([&](const auto& model) { model.encode(word, ids); }, its.model);
    });
  };
  its.in_text.cut(text, specials, [&](std::string_view part, const AddedToken* token) {
    if (ids.size() >= limit) return;
    if (token != nullptr) return ids.push_back(token->id);
    const bool is_first = part.data() == text.data() && !its.normalizer.removes_first(part);
    if (its.normalizer.empty() && its.in_normalized_text.tokens().empty()) return put_words(part, is_first);
    const std::string normal = its.normalizer(part);
    its.in_normalized_text.cut(normal, specials, [&](std::string_view rest, const AddedToken* found) {
      if (found != nullptr) return ids.push_back(found->id);
      put_words(rest, is_first && rest.data() == normal.data());
    });
  });
  if (ids.size() > limit) ids.resize(limit);
}

}  // namespace adjoin::data
