#include "adjoin/data/tokenizer/nfc.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/utf8.hpp"

namespace adjoin::data {
namespace {

struct LaterPoints {
  char32_t first, last;
};

// Characters that have a combining class, or compose, and were added after Unicode 9.0, up to 18.0. Derived from the Unicode
// Character Database, fields Canonical_Combining_Class and Decomposition_Mapping.
constexpr LaterPoints kLater[] = {
    {0x5c8, 0x5c9},     {0x7fd, 0x7fd},     {0x897, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},
    {0xc3c, 0xc3c},     {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x1715, 0x1715},   {0x1abf, 0x1af0},
    {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},   {0x105c9, 0x105c9}, {0x105d2, 0x105d2}, {0x105da, 0x105da},
    {0x105e4, 0x105e4}, {0x10d24, 0x10d27}, {0x10d69, 0x10d6d}, {0x10eab, 0x10eac}, {0x10ecb, 0x10ecf},
    {0x10ef0, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b},
    {0x11382, 0x113d0}, {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11930, 0x11943}, {0x119e0, 0x119e0},
    {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d45}, {0x11d97, 0x11d97},
    {0x11f41, 0x11f42}, {0x1611e, 0x1612f}, {0x16d63, 0x16d6a}, {0x16ff0, 0x16ff1}, {0x1d127, 0x1d128},
    {0x1d250, 0x1d281}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef},
    {0x1e4ec, 0x1e4ef}, {0x1e5ee, 0x1e5ef}, {0x1e6e3, 0x1e6f5}};

constexpr char32_t kFirstThatChanges = 0x300;  // all characters below are composed, and do not compose with each other

bool came_later(char32_t point) {
  const auto* range = std::upper_bound(std::begin(kLater), std::end(kLater), point,
                                       [](char32_t value, const LaterPoints& its) { return value < its.first; });
  return range != std::begin(kLater) && point <= std::prev(range)->last;
}

/// Code points between two with which nothing composes.
class Run {
 public:
  void add(char32_t point) {
    std::array<int32_t, 32> parts;  // Unicode guarantees at most 4
    int boundary = 0;               // for graphemes; not used
    const auto count =
        utf8proc_decompose_char(static_cast<int32_t>(point), parts.data(), std::ssize(parts),
                                static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE), &boundary);
    if (count < 0 || count > std::ssize(parts)) throw InternalError("nfc: utf8proc cannot decompose a code point");
    points_.insert(points_.end(), parts.begin(), parts.begin() + count);
  }

  /// Appends the composed run to a text and empties it.
  void flush(std::string& text) {
    if (points_.empty()) return;
    order_marks();
    const auto count = utf8proc_normalize_utf32(points_.data(), std::ssize(points_),
                                                static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    if (count < 0) throw InternalError("nfc: utf8proc cannot compose a run");
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) append_utf8(text, static_cast<char32_t>(points_[i]));
    points_.clear();
  }

 private:
  static int combining_class(int32_t point) { return utf8proc_get_property(point)->combining_class; }

  void order_marks() {
    for (auto begin = points_.begin(); begin != points_.end();) {
      const auto is_mark = [](int32_t point) { return combining_class(point) != 0; };
      begin = std::find_if(begin, points_.end(), is_mark);
      const auto end = std::find_if_not(begin, points_.end(), is_mark);
      std::stable_sort(begin, end, [](int32_t a, int32_t b) { return combining_class(a) < combining_class(b); });
      begin = end;
    }
  }

  std::vector<int32_t> points_;
};

bool changes_nothing(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0xcc; });
}

}  // namespace

std::string nfc(std::string_view text) {
  if (changes_nothing(text)) return std::string(text);
  std::string composed;
  composed.reserve(text.size());
  Run run;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    if (point.length == 0) {
      run.flush(composed);
      composed += text[at++];
      continue;
    }
    at += static_cast<size_t>(point.length);
    const bool is_border = point.value < kFirstThatChanges || came_later(point.value);
    if (is_border) run.flush(composed);
    if (came_later(point.value))
      append_utf8(composed, point.value);
    else
      run.add(point.value);
  }
  run.flush(composed);
  return composed;
}

}  // namespace adjoin::data
