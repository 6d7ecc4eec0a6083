#include "adjoin/data/tokenizer/bert_words.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "adjoin/data/tokenizer/character_classes.hpp"
#include "adjoin/data/tokenizer/nfc.hpp"

namespace adjoin::data {
namespace {

constexpr char32_t kLeftComposed = 0x11938;  // it came with Unicode 13; the reference does not decompose it

/// Lower case in Unicode 17; older versions of utf8proc lack its last 55 letters.
char32_t to_lower(char32_t point) {
  if (point >= 0x10d50 && point <= 0x10d65) return point + 0x20;
  if (point >= 0x16ea0 && point <= 0x16eb8) return point + 0x1b;
  if (point == 0xa7cb) return 0x264;
  if (point == 0xa7dc) return 0x19b;
  constexpr std::u32string_view kBeforeTheirLowerCase = U"\u1c89\ua7cc\ua7ce\ua7d2\ua7d4\ua7da";
  if (kBeforeTheirLowerCase.find(point) != kBeforeTheirLowerCase.npos) return point + 1;
  return static_cast<char32_t>(utf8proc_tolower(static_cast<int32_t>(point)));
}

class BertText {
 public:
  BertText(std::string_view text, const BertWordOptions& options) : options_(options) {
    text_.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
      const size_t printable = printable_ascii_end(text, at) - at;
      if (printable > 0) put_ascii(text.substr(at, printable));
      at += printable;
      if (at == text.size()) break;
      const CodePoint point = decode_utf8(text, at);
      if (point.length > 0) take_point(point.value);
      at += static_cast<size_t>(std::max(point.length, 1));
    }
    put_marks();
  }

  std::string take() { return std::move(text_); }

 private:
  static size_t printable_ascii_end(std::string_view text, size_t at) {
    while (at < text.size() && text[at] >= ' ' && text[at] < 127) ++at;
    return at;
  }

  void put_ascii(std::string_view text) {
    put_marks();
    const size_t begin = text_.size();
    text_ += text;
    if (!options_.lower_case) return;
    for (size_t at = begin; at < text_.size(); ++at)
      if (text_[at] >= 'A' && text_[at] <= 'Z') text_[at] = static_cast<char>(text_[at] + ('a' - 'A'));
  }

  void take_point(char32_t point) {
    const Traits its = traits_of(point);
    if ((its & kDropped) != 0) return;
    const bool is_apart = (its & kIdeograph) != 0 && options_.sets_ideographs_apart;
    if (is_apart || (its & kSeparator) != 0) put_space();
    if ((its & kSeparator) != 0) return;
    take_letter(point);
    if (is_apart) put_space();
  }

  // Canonical order can move marks past their neighbours, so marks wait until their run ends. Accents are dropped before they
  // would wait, so few marks wait, and the cost of a run of accents is its length.
  void take_letter(char32_t point) {
    parts_.clear();
    const bool stays = !options_.strip_accents || point == kLeftComposed;
    stays ? parts_.push_back(static_cast<int32_t>(point)) : decompose(point, parts_);
    for (const int32_t part : parts_) {
      const bool waits = !stays && combining_class(part) != 0;
      if (!waits) put_marks();
      if (!stays && (traits_of(static_cast<char32_t>(part)) & kMark) != 0) continue;
      waits ? marks_.push_back(part) : put(part);
    }
  }

  void put_space() {
    put_marks();
    text_ += ' ';
  }

  void put_marks() {
    if (marks_.empty()) return;
    order_marks(marks_);
    for (const int32_t mark : marks_) put(mark);
    marks_.clear();
  }

  void put(int32_t part) {
    const auto point = static_cast<char32_t>(part);
    if (options_.lower_case && point == 0x130)
      text_ += "i\u0307";  // the only letter whose lower case has two characters
    else
      append_utf8(text_, options_.lower_case ? to_lower(point) : point);
  }

  const BertWordOptions options_;
  std::string text_;
  std::vector<int32_t> parts_, marks_;
};

}  // namespace

std::string bert_text(std::string_view text, const BertWordOptions& options) {
  return BertText(text, options).take();
}

size_t bert_word_end(std::string_view text, size_t begin) {
  size_t at = begin;
  while (at < text.size()) {
    const Character next = character_at(text, at);
    const bool is_apart = (next.traits & (kSeparator | kPunctuation)) != 0;
    if (is_apart && at > begin) break;
    at += next.length;
    if (is_apart) break;
  }
  return at;
}

}  // namespace adjoin::data
