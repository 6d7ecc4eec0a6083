#include "adjoin/data/tokenizer/nfc.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "adjoin/base/error.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/data/tokenizer/character_classes.hpp"

namespace adjoin::data {
namespace {

constexpr char32_t kFirstThatChanges = 0x300;  // all characters below are composed, and do not compose with each other

/// Appends a run of code points, composed, to a text and empties it. Nothing composes with what is before and after it.
void put_composed(std::vector<int32_t>& run, std::string& text) {
  if (run.empty()) return;
  order_marks(run);
  const auto count = utf8proc_normalize_utf32(run.data(), std::ssize(run),
                                              static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  if (count < 0) throw InternalError("nfc: utf8proc cannot compose a run");
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) append_utf8(text, static_cast<char32_t>(run[i]));
  run.clear();
}

bool changes_nothing(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0xcc; });
}

}  // namespace

int combining_class(int32_t point) {
  return utf8proc_get_property(point)->combining_class;
}

void decompose(char32_t point, std::vector<int32_t>& points) {
  std::array<int32_t, 32> parts;  // Unicode guarantees at most 4
  int boundary = 0;               // for graphemes; not used
  const auto count = utf8proc_decompose_char(static_cast<int32_t>(point), parts.data(), std::ssize(parts),
                                             static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE), &boundary);
  if (count < 0 || count > std::ssize(parts)) throw InternalError("utf8proc cannot decompose a code point");
  points.insert(points.end(), parts.begin(), parts.begin() + count);
}

void order_marks(std::vector<int32_t>& points) {
  const auto is_mark = [](int32_t point) { return combining_class(point) != 0; };
  for (auto begin = points.begin(); begin != points.end();) {
    begin = std::find_if(begin, points.end(), is_mark);
    const auto end = std::find_if_not(begin, points.end(), is_mark);
    std::stable_sort(begin, end, [](int32_t a, int32_t b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
}

std::string nfc(std::string_view text) {
  if (changes_nothing(text)) return std::string(text);
  std::string composed;
  composed.reserve(text.size());
  std::vector<int32_t> run;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    if (point.length == 0) {
      put_composed(run, composed);
      composed += text[at++];
      continue;
    }
    at += static_cast<size_t>(point.length);
    const bool came_later = (traits_of(point.value) & kLater) != 0;
    if (point.value < kFirstThatChanges || came_later) put_composed(run, composed);
    if (came_later)
      append_utf8(composed, point.value);
    else
      decompose(point.value, run);
  }
  put_composed(run, composed);
  return composed;
}

}  // namespace adjoin::data
