#include "adjoin/data/tokenizer/added_vocabulary.hpp"

#include <algorithm>
#include <utility>

namespace adjoin::data {

void AddedVocabulary::add(AddedToken token) {
  if (token.content.empty()) return;
  const int64_t known = id_of(token.content), pieces = std::ssize(pieces_);
  const int64_t next = tokens_.empty() ? pieces : std::max(pieces, tokens_.rbegin()->first + 1);
  token.id = known >= 0 ? known : next;
  if (const auto old = tokens_.find(token.id); old != tokens_.end() && old->second.content == token.content)
    token.special |= old->second.special;
  ids_[token.content] = token.id;
  tokens_[token.id] = std::move(token);
}

int64_t AddedVocabulary::id_of(const std::string& text) const {
  if (const auto found = ids_.find(text); found != ids_.end()) return found->second;
  const auto piece = pieces_.find(text);
  return piece != pieces_.end() && piece->is_number_integer() ? piece->get<int64_t>() : -1;
}

std::vector<AddedToken> AddedVocabulary::tokens() const {
  std::vector<AddedToken> tokens;
  for (const auto& [id, token] : tokens_) tokens.push_back(token);
  return tokens;
}

TokenizerJson template_of(const std::string& before, const std::string& behind, const AddedVocabulary& added,
                          bool is_berts) {
  TokenizerJson special = TokenizerJson::object();
  const auto item = [](const char* kind, const std::string& id, int type) {
    return TokenizerJson::object({{kind, {{"id", id}, {"type_id", type}}}});
  };
  const auto text = [&](const char* id, int type, bool begins) {
    TokenizerJson list = TokenizerJson::array();
    if (begins && !before.empty()) list.push_back(item("SpecialToken", before, type));
    list.push_back(item("Sequence", id, type));
    if (!behind.empty()) list.push_back(item("SpecialToken", behind, type));
    return list;
  };
  for (const std::string& token : {before, behind})
    if (!token.empty())
      special[token] = {{"id", token},
                        {"ids", TokenizerJson::array({added.id_of(token)})},
                        {"tokens", TokenizerJson::array({token})}};
  TokenizerJson pair = text("A", 0, true);
  for (const TokenizerJson& its : text("B", 1, !is_berts)) pair.push_back(its);
  return {{"type", "TemplateProcessing"},
          {"single", text("A", 0, true)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(special)}};
}

}  // namespace adjoin::data
