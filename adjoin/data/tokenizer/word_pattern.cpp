#include "adjoin/data/tokenizer/word_pattern.hpp"

#include "adjoin/data/tokenizer/character_classes.hpp"

namespace adjoin::data {
namespace {

constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt2Grouped =  // as tiktoken writes it
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

bool is_line_end(char c) {
  return c == '\r' || c == '\n';
}

/// The end of a run of at most `most` characters of one class.
size_t run_end(std::string_view text, size_t at, CharacterClass kind, size_t most = std::string_view::npos) {
  for (size_t count = 0; at < text.size() && count < most; ++count) {
    const Character next = character_at(text, at);
    if (next.kind != kind) break;
    at += next.length;
  }
  return at;
}

/// \s+(?!\S)|\s+: white space without its last character if a word follows, as that belongs to the word.
size_t spaces_end(std::string_view text, size_t begin) {
  size_t at = begin, last = begin;
  while (at < text.size()) {
    const Character next = character_at(text, at);
    if (next.kind != CharacterClass::space) break;
    last = at;
    at += next.length;
  }
  return at == text.size() || last == begin ? at : last;
}

/// 's|'t|'re|'ve|'m|'ll|'d after the apostrophe: the number of bytes, 0 for no match.
size_t contraction(std::string_view rest, bool any_case) {
  const auto letter = [&](size_t at) {
    if (at >= rest.size()) return '\0';
    const char c = rest[at];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char first = letter(0);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 1;
  if (first == 'r' || first == 'v') return letter(1) == 'e' ? 2 : 0;
  if (first == 'l') return letter(1) == 'l' ? 2 : 0;
  return any_case && rest.starts_with("\xc5\xbf") ? 2 : 0;  // the long s, U+017F, counts as an s if case is ignored
}

size_t gpt2_end(std::string_view text, size_t begin) {
  if (text[begin] == '\'')
    if (const size_t length = contraction(text.substr(begin + 1), /*any_case=*/false); length > 0)
      return begin + 1 + length;
  const size_t at = text[begin] == ' ' && begin + 1 < text.size() ? begin + 1 : begin;
  const Character first = character_at(text, at);
  if (first.kind == CharacterClass::space) return spaces_end(text, begin);
  return run_end(text, at + first.length, first.kind);
}

/// White space that belongs to no letter or sign: \s*[\r\n]+|\s+(?!\S)|\s+, that is up to its last line end.
size_t lines_end(std::string_view text, size_t begin) {
  const size_t end = run_end(text, begin, CharacterClass::space);
  for (size_t at = end; at > begin; --at)
    if (is_line_end(text[at - 1])) return at;
  return spaces_end(text, begin);
}

size_t llama3_end(std::string_view text, size_t begin, size_t digits) {
  if (text[begin] == '\'')
    if (const size_t length = contraction(text.substr(begin + 1), /*any_case=*/true); length > 0)
      return begin + 1 + length;
  const Character first = character_at(text, begin);
  const size_t next = begin + first.length;
  if (first.kind == CharacterClass::letter) return run_end(text, next, CharacterClass::letter);
  if (first.kind == CharacterClass::number) return run_end(text, begin, CharacterClass::number, digits);
  const Character second = next < text.size() ? character_at(text, next) : Character{CharacterClass::space, 1};
  if (second.kind == CharacterClass::letter && !is_line_end(text[begin]))
    return run_end(text, next + second.length, CharacterClass::letter);
  if (first.kind == CharacterClass::other || (text[begin] == ' ' && second.kind == CharacterClass::other)) {
    size_t end = run_end(text, next, CharacterClass::other);
    while (end < text.size() && is_line_end(text[end])) ++end;
    return end;
  }
  return lines_end(text, begin);
}

}  // namespace

std::optional<WordPattern> known_pattern(std::string_view expression) {
  if (expression == kGpt2 || expression == kGpt2Grouped) return WordPattern::gpt2;
  if (expression == kLlama3) return WordPattern::llama3;
  if (expression == kQwen2Pattern) return WordPattern::qwen2;
  return std::nullopt;
}

size_t word_end(WordPattern pattern, std::string_view text, size_t begin) {
  if (pattern == WordPattern::gpt2) return gpt2_end(text, begin);
  return llama3_end(text, begin, pattern == WordPattern::llama3 ? 3 : 1);
}

}  // namespace adjoin::data
