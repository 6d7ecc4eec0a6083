#include "adjoin/data/tokenizer/added_vocabulary.hpp"

#include <algorithm>
#include <utility>

namespace adjoin::data {

void AddedVocabulary::add(const AddedToken& token) {
  if (token.content.empty()) return;
  if (token.special) special_.try_emplace(token.content, token);
  const int64_t known = id_of(token.content);
  const int64_t pieces = std::ssize(pieces_);
  const int64_t next = std::max(pieces, by_id_.empty() ? pieces : by_id_.rbegin()->first + 1);
  AddedToken its = token;
  its.id = known >= 0 ? known : next;
  for (const auto& [id, old] : by_id_)
    if (AddedToken compared = old; compared.id = its.id, compared == its) return;
  ids_[its.content] = its.id;
  by_id_[its.id] = its;
  if (!special_.contains(its.content)) not_special_.emplace(its.content, its);
}

int64_t AddedVocabulary::id_of(const std::string& text) const {
  if (const auto found = ids_.find(text); found != ids_.end()) return found->second;
  const auto piece = pieces_.find(text);
  return piece != pieces_.end() && piece->is_number_integer() ? piece->get<int64_t>() : -1;
}

std::vector<AddedToken> AddedVocabulary::tokens() const {
  std::vector<AddedToken> tokens;
  for (const auto& [id, token] : by_id_) tokens.push_back(token);
  return tokens;
}

TokenizerJson AddedVocabulary::json(const std::string& name) const {
  TokenizerJson list = TokenizerJson::array();
  for (AddedToken token : tokens()) {
    const auto special = special_.find(token.content);
    const auto [first, last] = not_special_.equal_range(token.content);
    token.special = special != special_.end();
    token.normalized = token.special ? special->second.normalized : first->second.normalized;
    require(std::all_of(first, last, [&](const auto& its) { return its.second.normalized == token.normalized; }), [&] {
      return name + ": the token " + in_quotes(token.content) +
             " is given twice, with \"normalized\" and without it, which is not supported";
    });
    list.push_back(json_of(token));
  }
  return list;
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
