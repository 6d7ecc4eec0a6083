#include "adjoin/data/tokenizer/bert_words.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/data/tokenizer/unicode_categories.hpp"

namespace adjoin::data {
namespace {

enum class AsciiKind : uint8_t { letter, space, punctuation, control };

constexpr std::array<AsciiKind, 128> make_ascii_kinds() {
  std::array<AsciiKind, 128> kinds{};
  for (int c = 0; c < 128; ++c) {
    const bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    kinds[static_cast<size_t>(c)] = alphanumeric          ? AsciiKind::letter
                                    : space               ? AsciiKind::space
                                    : c < ' ' || c == 127 ? AsciiKind::control
                                                          : AsciiKind::punctuation;
  }
  return kinds;
}

constexpr auto kAsciiKinds = make_ascii_kinds();

char to_lower_ascii(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

/// U+11938 came with Unicode 13; the reference does not decompose it.
bool is_left_composed(char32_t point) {
  return point == 0x11938;
}

/// Lower case in Unicode 17; older versions of utf8proc lack its last 55 letters.
char32_t to_lower(char32_t point) {
  if (point >= 0x10d50 && point <= 0x10d65) return point + 0x20;
  if (point >= 0x16ea0 && point <= 0x16eb8) return point + 0x1b;
  switch (point) {
    case 0xa7cb:
      return 0x264;
    case 0xa7dc:
      return 0x19b;
    case 0x1c89:
    case 0xa7cc:
    case 0xa7ce:
    case 0xa7d2:
    case 0xa7d4:
    case 0xa7da:
      return point + 1;
    default:
      return static_cast<char32_t>(utf8proc_tolower(static_cast<int32_t>(point)));
  }
}

/// The canonical decomposition of one code point.
class Decomposed {
 public:
  explicit Decomposed(char32_t point) {
    int boundary = 0;  // for graphemes; not used
    const auto size = utf8proc_decompose_char(static_cast<int32_t>(point), points_.data(), kMost,
                                              static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE), &boundary);
    if (size < 0 || size > kMost) throw InternalError("bert_words: utf8proc cannot decompose a code point");
    size_ = static_cast<size_t>(size);
  }
  const int32_t* begin() const { return points_.data(); }
  const int32_t* end() const { return points_.data() + size_; }

 private:
  static constexpr int kMost = 32;  // Unicode guarantees at most 4
  std::array<int32_t, kMost> points_;
  size_t size_ = 0;
};

class WordCutter {
 public:
  /// `visits_spaces`: between words a space is visited for each character of white space.
  WordCutter(const std::function<void(std::string_view)>& visit, const BertWordOptions& options,
             bool visits_spaces = false)
      : visit_(visit), options_(options), visits_spaces_(visits_spaces) {}

  void cut(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
      if (const char c = text[at]; static_cast<unsigned char>(c) < 0x80) {
        take_ascii(c);
        ++at;
      } else {
        const CodePoint point = decode_utf8(text, at);
        if (point.length > 0) take_other(point.value);
        at += static_cast<size_t>(point.length > 0 ? point.length : 1);
      }
    }
    end_word();
  }

 private:
  struct Mark {
    int combining_class;
    char32_t point;
  };

  void take_ascii(char c) {
    const AsciiKind kind = kAsciiKinds[static_cast<size_t>(c)];
    if (kind == AsciiKind::control) return;
    put_marks();
    if (kind == AsciiKind::letter)
      word_ += options_.lower_case ? to_lower_ascii(c) : c;
    else
      kind == AsciiKind::space ? put_space() : put_separator(std::string_view(&c, 1));
  }

  void take_other(char32_t point) {
    if (is_control(point) || point == 0xfffd) return;
    if (is_white_space(point)) {
      put_space();
    } else if (is_cjk_ideograph(point) && options_.sets_ideographs_apart) {
      put_space();
      take_letter(point);
      put_space();
    } else {
      take_letter(point);
    }
  }

  void take_letter(char32_t point) {
    if (!options_.strip_accents || is_left_composed(point)) {
      put_marks();
      put(point);
    } else {
      decompose(point);
    }
  }

  // Canonical order can move marks past their neighbours, so marks wait until their run ends. Accents are dropped before they
  // would wait, so few marks wait, and the cost of a run of accents is its length.
  void decompose(char32_t whole) {
    for (const int32_t part : Decomposed(whole)) {
      const auto point = static_cast<char32_t>(part);
      const int combining_class = utf8proc_get_property(part)->combining_class;
      if (combining_class == 0) put_marks();
      if (is_nonspacing_mark(point)) continue;
      if (combining_class == 0)
        put(point);
      else
        marks_.push_back({combining_class, point});
    }
  }

  void put_marks() {
    if (marks_.empty()) return;
    std::stable_sort(marks_.begin(), marks_.end(),
                     [](const Mark& a, const Mark& b) { return a.combining_class < b.combining_class; });
    for (const Mark& mark : marks_) put(mark.point);
    marks_.clear();
  }

  void put(char32_t point) {
    std::string text;
    append_utf8(text, options_.lower_case ? to_lower(point) : point);
    if (options_.lower_case && point == 0x130) text = "i\u0307";  // the only letter whose lower case has two characters
    if (is_punctuation(point))
      put_separator(text);
    else
      word_ += text;
  }

  void put_separator(std::string_view punctuation) {
    emit_word();
    visit_(punctuation);
  }

  void put_space() {
    end_word();
    if (visits_spaces_) visit_(" ");
  }

  void end_word() {
    put_marks();
    emit_word();
  }

  void emit_word() {
    if (word_.empty()) return;
    visit_(word_);
    word_.clear();
  }

  const std::function<void(std::string_view)>& visit_;
  const BertWordOptions options_;
  const bool visits_spaces_;
  std::string word_;
  std::vector<Mark> marks_;
};

}  // namespace

void for_each_bert_word(std::string_view text, const std::function<void(std::string_view)>& visit,
                        const BertWordOptions& options) {
  WordCutter(visit, options).cut(text);
}

std::string normalized_for_bert(std::string_view text, const BertWordOptions& options) {
  std::string normal;
  WordCutter([&](std::string_view part) { normal += part; }, options, /*visits_spaces=*/true).cut(text);
  return normal;
}

}  // namespace adjoin::data
