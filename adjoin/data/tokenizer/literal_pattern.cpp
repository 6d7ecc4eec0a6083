#include "adjoin/data/tokenizer/literal_pattern.hpp"

#include <algorithm>

#include "adjoin/data/tokenizer/character_classes.hpp"

namespace adjoin::data {
namespace {

constexpr std::string_view kEscaped = "()[]{}?*+-|^$\\.&~# \t\n\r\v\f";
constexpr std::string_view kOperators = "()[]{}?*+^$.";

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

std::optional<LiteralPattern> LiteralPattern::read(std::string_view expression) {
  LiteralPattern pattern;
  std::string text;
  const auto end_text = [&] {
    if (text.empty()) return false;
    pattern.texts_[text[0]].push_back(text);
    text.clear();
    return true;
  };
  for (size_t at = 0; at < expression.size(); ++at) {
    if (expression[at] == '|') {
      if (!end_text()) return std::nullopt;
      continue;
    }
    const bool is_escaped = expression[at] == '\\';
    if (is_escaped && ++at == expression.size()) return std::nullopt;
    if (is_escaped ? is_alphanumeric(expression[at]) : kOperators.find(expression[at]) != std::string_view::npos)
      return std::nullopt;
    text += expression[at];
  }
  return end_text() ? std::optional(std::move(pattern)) : std::nullopt;
}

std::string LiteralPattern::write(std::vector<std::string> texts) {
  std::stable_sort(texts.begin(), texts.end(),
                   [](const std::string& a, const std::string& b) { return characters_in(a) > characters_in(b); });
  std::string expression;
  for (const std::string& text : texts) {
    if (!expression.empty()) expression += '|';
    for (const char c : text) {
      if (kEscaped.find(c) != std::string_view::npos) expression += '\\';
      expression += c;
    }
  }
  return expression;
}

size_t LiteralPattern::end_of(std::string_view text, size_t begin) const {
  if (const size_t length = length_at(text, begin); length > 0) return begin + length;
  size_t at = begin + 1;
  while (at < text.size() && length_at(text, at) == 0) ++at;
  return at;
}

size_t LiteralPattern::length_at(std::string_view text, size_t at) const {
  const auto found = texts_.find(text[at]);
  if (found == texts_.end()) return 0;
  for (const std::string& literal : found->second)
    if (text.substr(at).starts_with(literal)) return literal.size();
  return 0;
}

}  // namespace adjoin::data
