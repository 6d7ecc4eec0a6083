#include "adjoin/data/tokenizer/text_steps.hpp"

#include <algorithm>
#include <utility>

#include "adjoin/base/text.hpp"
#include "adjoin/data/tokenizer/nfc.hpp"

namespace adjoin::data {
namespace {

constexpr size_t kMostSteps = 8;
constexpr size_t kMostGrowth =
    16;  // the most times that a normaliser may lengthen a text, or the text that it puts first

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  size_t begin = 0;
  for (size_t at; (at = text.find(from, begin)) != std::string_view::npos; begin = at + from.size())
    result.append(text.substr(begin, at - begin)).append(to);
  return result.append(text.substr(begin));
}

std::string with_single_spaces(std::string_view text) {
  std::string result;
  for (const char c : text)
    if (c != ' ' || !result.ends_with(' ')) result += c;
  return result;
}

std::string without_spaces_around(std::string_view text) {
  return std::string(trimmed(text, " "));
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

Normalizer::Normalizer(const TokenizerJson& normalizer, const std::string& name) {
  size_t growth = 1;
  for_each_part(normalizer, "normalizers", [&](const TokenizerJson& part) {
    const std::string type = type_of(part);
    if (type == "NFC") {
      steps_.emplace_back(ToNfc{});
    } else if (type == "Prepend") {
      steps_.emplace_back(Prepend{part.at("prepend").get<std::string>()});
      growth = std::max(growth, std::get<Prepend>(steps_.back()).text.size());
    } else if (type == "Replace" && part.at("pattern").contains("Regex")) {
      const std::string expression = text_field(part.at("pattern"), "Regex"), to = text_field(part, "content");
      if (expression == kSpacesAround && to.empty())
        steps_.emplace_back(TrimSpaces{});
      else if (expression == kSeveralSpaces && to == " ")
        steps_.emplace_back(JoinSpaces{});
      else if (expression == kSignFirst && to == std::string(kSpaceSign) + std::string(kSpaceSign))
        steps_.emplace_back(DoubleFirstSign{});
      else
        literal_pattern(part, "normalizer", name);  // refuses it
    } else if (type == "Replace") {
      Replace step{literal_pattern(part, "normalizer", name), part.at("content").get<std::string>()};
      require(!step.from.empty(), [&] { return name + ": normalizer \"Replace\" replaces nothing"; });
      growth *= std::max<size_t>(1, (step.to.size() + step.from.size() - 1) / step.from.size());
      steps_.emplace_back(std::move(step));
    } else {
      refuse_part(name, "normalizer", type);
    }
    require(steps_.size() <= kMostSteps && growth <= kMostGrowth,
            [&] { return name + ": the normalizer has too many parts, or makes texts too long"; });
  });
}

std::string Normalizer::operator()(std::string_view text) const {
  std::string result(text);
  for (const auto& step : steps_) {
    if (std::holds_alternative<ToNfc>(step))
      result = nfc(result);
    else if (std::holds_alternative<TrimSpaces>(step))
      result = without_spaces_around(result);
    else if (std::holds_alternative<JoinSpaces>(step))
      result = with_single_spaces(result);
    else if (std::holds_alternative<DoubleFirstSign>(step))
      result = result.starts_with(kSpaceSign) ? std::string(kSpaceSign) + result : result;
    else if (const auto* prepend = std::get_if<Prepend>(&step))
      result = result.empty() ? result : prepend->text + result;
    else if (const auto* replace = std::get_if<Replace>(&step))
      result = replaced(result, replace->from, replace->to);
  }
  return result;
}

bool Normalizer::removes_first(std::string_view text) const {
  return text.starts_with(' ') && std::any_of(steps_.begin(), steps_.end(), [](const auto& step) {
           return std::holds_alternative<TrimSpaces>(step);
         });
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

void WordCutting::add(const TokenizerJson& part, const std::string& name) {
  const std::string type = type_of(part);
  if (type == "ByteLevel") {
    is_byte_level_ = true;
    if (flag(part, "add_prefix_space", true)) steps_.emplace_back(PrefixSpace{});
    if (flag(part, "use_regex", true)) steps_.emplace_back(WordPattern::gpt2);
  } else if (type == "Split") {
    const TokenizerJson& pattern = part.at("pattern");
    const std::string expression = text_field(pattern, "Regex");
    const std::optional<WordPattern> known = known_pattern(expression);
    std::optional<LiteralPattern> literals = LiteralPattern::read(expression);
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
    if (known)
      steps_.emplace_back(*known);
    else
      steps_.emplace_back(std::move(*literals));
  } else if (type == "Digits") {
    steps_.emplace_back(Digits{flag(part, "individual_digits")});
  } else if (type == "Metaspace") {
    const std::string scheme = part.contains("prepend_scheme")        ? text_field(part, "prepend_scheme")
                               : flag(part, "add_prefix_space", true) ? "always"
                                                                      : "never";
    using Prefix = Metaspace::Prefix;
    const auto prefix = scheme == "always" ? Prefix::always : scheme == "first" ? Prefix::first : Prefix::never;
    require(prefix != Prefix::never || scheme == "never", [&] {
      return name + ": pre_tokenizer \"Metaspace\" with the scheme " + in_quotes(scheme) + " is not supported";
    });
    require(text_field(part, "replacement") == kSpaceSign, [&] {
      return name + ": pre_tokenizer \"Metaspace\" with the replacement " + in_quotes(text_field(part, "replacement")) +
             " is not supported; expected " + std::string(kSpaceSign);
    });
    steps_.emplace_back(Metaspace{prefix, flag(part, "split", true)});
  } else {
    refuse_part(name, "pre_tokenizer", type);
  }
}

std::optional<std::string> WordCutting::changed(const Step& step, std::string_view text, bool is_first) {
  if (std::holds_alternative<PrefixSpace>(step))
    return text.starts_with(' ') ? std::nullopt : std::optional(' ' + std::string(text));
  if (const auto* metaspace = std::get_if<Metaspace>(&step)) {
    std::string result = replaced(text, " ", kSpaceSign);
    const bool takes_prefix =
        metaspace->prefix == Metaspace::Prefix::always || (metaspace->prefix == Metaspace::Prefix::first && is_first);
    return takes_prefix && !result.starts_with(kSpaceSign) ? std::string(kSpaceSign) + result : result;
  }
  return std::nullopt;
}

size_t WordCutting::end_of(const Step& step, std::string_view text, size_t begin) {
  if (const auto* pattern = std::get_if<WordPattern>(&step)) return word_end(*pattern, text, begin);
  if (const auto* literals = std::get_if<LiteralPattern>(&step)) return literals->end_of(text, begin);
  if (const auto* digits = std::get_if<Digits>(&step)) return digits_end(text, begin, digits->apart);
  if (const auto* metaspace = std::get_if<Metaspace>(&step); metaspace != nullptr && metaspace->splits) {
    // A sign begins a word. (MergedWithNext: a sign before another sign is a separate word.)
    const size_t next = text.find(kSpaceSign, begin + 1);
    return next == std::string_view::npos ? text.size() : next;
  }
  return text.size();
}

}  // namespace adjoin::data
