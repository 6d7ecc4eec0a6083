#include "adjoin/data/tokenizer/text_steps.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "adjoin/base/text.hpp"
#include "adjoin/data/tokenizer/character_classes.hpp"
#include "adjoin/data/tokenizer/literal_pattern.hpp"
#include "adjoin/data/tokenizer/nfc.hpp"

namespace adjoin::data {
namespace {

constexpr size_t kMostSteps = 8;
constexpr size_t kMostGrowth =
    16;  // the most times that a normaliser may lengthen a text, or the text that it puts first

std::string with_single_spaces(std::string_view text) {
  std::string result;
  for (const char c : text)
    if (c != ' ' || !result.ends_with(' ')) result += c;
  return result;
}

/// The literal text that a part searches. Throws: InvalidArgument where it is a regular expression
std::string literal_pattern(const TokenizerJson& part, const char* kind, const std::string& name) {
  const TokenizerJson& pattern = part.at("pattern");
  require(pattern.contains("String"), [&] {
    return name + ": " + kind + " " + in_quotes(type_of(part)) + " with the pattern " + excerpt(pattern.dump()) +
           " is not supported; expected a literal text";
  });
  return pattern.at("String").get<std::string>();
}

size_t digits_end(std::string_view text, size_t begin, bool apart) {
  bool is_number = false;
  size_t at = begin;
  while (at < text.size()) {
    const CodePoint point = decode_utf8(text, at);
    const bool numeric = point.length > 0 && is_numeric(point.value);
    if (at > begin && (numeric != is_number || (numeric && apart))) break;
    is_number = numeric;
    at += point.length > 0 ? static_cast<size_t>(point.length) : 1;
  }
  return at;
}

}  // namespace

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  size_t begin = 0;
  for (size_t at; (at = text.find(from, begin)) != std::string_view::npos; begin = at + from.size())
    result.append(text.substr(begin, at - begin)).append(to);
  return result.append(text.substr(begin));
}

Normalizer::Normalizer(const TokenizerJson& normalizer, const std::string& name) {
  for_each_part(normalizer, "normalizers", [&](const TokenizerJson& part) {
    add(part, name);
    require(steps_.size() <= kMostSteps && growth_ <= kMostGrowth,
            [&] { return name + ": the normalizer has too many parts, or makes texts too long"; });
  });
}

Normalizer::Normalizer(const BertWordOptions& options) {
  steps_.emplace_back([options](std::string_view text) { return bert_text(text, options); });
}

void Normalizer::add(const TokenizerJson& part, const std::string& name) {
  const std::string type = type_of(part);
  const std::string regex = type == "Replace" ? text_field(part.at("pattern"), "Regex") : std::string();
  const std::string to = type == "Replace" ? text_field(part, "content") : std::string();
  if (type == "NFC") {
    steps_.emplace_back(nfc);
  } else if (type == "Prepend") {
    const auto first = part.at("prepend").get<std::string>();
    growth_ = std::max(growth_, first.size());
    steps_.emplace_back(
        [first](std::string_view text) { return text.empty() ? std::string() : first + std::string(text); });
  } else if (type != "Replace") {
    refuse_part(name, "normalizer", type);
  } else if (regex == kSpacesAround && to.empty()) {
    trims_spaces_ = true;
    steps_.emplace_back([](std::string_view text) { return std::string(trimmed(text, " ")); });
  } else if (regex == kSeveralSpaces && to == " ") {
    steps_.emplace_back(with_single_spaces);
  } else if (regex == kSignFirst && to == std::string(kSpaceSign) + std::string(kSpaceSign)) {
    steps_.emplace_back([](std::string_view text) {
      return (text.starts_with(kSpaceSign) ? std::string(kSpaceSign) : std::string()).append(text);
    });
  } else {
    const std::string from = literal_pattern(part, "normalizer", name), by = part.at("content").get<std::string>();
    require(!from.empty(), [&] { return name + ": normalizer \"Replace\" replaces nothing"; });
    growth_ *= std::max<size_t>(1, (by.size() + from.size() - 1) / from.size());
    steps_.emplace_back([from, by](std::string_view text) { return replaced(text, from, by); });
  }
}

std::string Normalizer::operator()(std::string_view text) const {
  std::string result(text);
  for (const auto& step : steps_) result = step(result);
  return result;
}

WordCutting::WordCutting(const TokenizerJson& pre_tokenizer, const std::string& name) {
  for_each_part(pre_tokenizer, "pretokenizers", [&](const TokenizerJson& part) {
    require(!is_byte_level_, [&] {
      return name + ": pre_tokenizer " + in_quotes(type_of(part)) + " comes after \"ByteLevel\", expected it before";
    });
    add(part, name);
    require(steps_.size() <= kMostSteps, [&] { return name + ": the pre_tokenizer has too many parts"; });
  });
}

WordCutting WordCutting::berts() {
  WordCutting words;
  words.steps_.push_back({.end_of = bert_word_end, .drops_spaces = true});
  return words;
}

void WordCutting::add(const TokenizerJson& part, const std::string& name) {
  const std::string type = type_of(part);
  if (type == "ByteLevel") {
    is_byte_level_ = true;
    if (flag(part, "add_prefix_space", true))
      steps_.push_back({.change = [](std::string_view text, bool) {
        return (text.starts_with(' ') ? std::string() : " ").append(text);
      }});
    if (flag(part, "use_regex", true)) add_pattern(WordPattern::gpt2);
  } else if (type == "Split") {
    add_split(part, name);
  } else if (type == "Digits") {
    const bool apart = flag(part, "individual_digits");
    steps_.push_back({.end_of = [apart](std::string_view text, size_t at) { return digits_end(text, at, apart); }});
  } else if (type == "Metaspace") {
    add_metaspace(part, name);
  } else {
    refuse_part(name, "pre_tokenizer", type);
  }
}

void WordCutting::add_pattern(WordPattern pattern) {
  steps_.push_back({.end_of = [pattern](std::string_view text, size_t at) { return word_end(pattern, text, at); }});
}

void WordCutting::add_split(const TokenizerJson& part, const std::string& name) {
  const TokenizerJson& pattern = part.at("pattern");
  const std::string expression = text_field(pattern, "Regex");
  const std::optional<WordPattern> known = known_pattern(expression);
  const std::optional<LiteralPattern> literals = LiteralPattern::read(expression);
  require(known || literals, [&] {
    return name + ": pre_tokenizer \"Split\" with the pattern " + excerpt(pattern.dump()) +
           " is not supported; expected that of GPT-2, Llama 3 or Qwen 2, or a list of literal texts";
  });
  // Their words cover the whole text, so keeping the words and dropping what is between them give the same result.
  const std::string behavior = text_field(part, "behavior");
  const bool inverted = flag(part, "invert");
  require((behavior == "Isolated" && !inverted) || (behavior == "Removed" && inverted && known), [&] {
    return name + ": pre_tokenizer \"Split\" with the behavior " + in_quotes(behavior) + " is not supported";
  });
  if (known) return add_pattern(*known);
  steps_.push_back({.end_of = [its = *literals](std::string_view text, size_t at) { return its.end_of(text, at); }});
}

void WordCutting::add_metaspace(const TokenizerJson& part, const std::string& name) {
  const std::string scheme = part.contains("prepend_scheme")        ? text_field(part, "prepend_scheme")
                             : flag(part, "add_prefix_space", true) ? "always"
                                                                    : "never";
  const bool always = scheme == "always", first = scheme == "first";
  require(always || first || scheme == "never", [&] {
    return name + ": pre_tokenizer \"Metaspace\" with the scheme " + in_quotes(scheme) + " is not supported";
  });
  require(text_field(part, "replacement") == kSpaceSign, [&] {
    return name + ": pre_tokenizer \"Metaspace\" with the replacement " + in_quotes(text_field(part, "replacement")) +
           " is not supported; expected " + std::string(kSpaceSign);
  });
  Step step{.change = [always, first](std::string_view text, bool is_first) {
    std::string result = replaced(text, " ", kSpaceSign);
    const bool takes_sign = (always || (first && is_first)) && !result.starts_with(kSpaceSign);
    return takes_sign ? std::string(kSpaceSign) + result : result;
  }};
  if (flag(part, "split",
           true))  // A sign begins a word. (MergedWithNext: a sign before another sign is a separate word.)
    step.end_of = [](std::string_view text, size_t begin) {
      return std::min(text.find(kSpaceSign, begin + 1), text.size());
    };
  steps_.push_back(std::move(step));
}

}  // namespace adjoin::data
