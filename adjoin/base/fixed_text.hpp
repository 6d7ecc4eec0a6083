#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <type_traits>

namespace adjoin {

/// A text of up to N - 1 bytes; of a longer one the beginning. Plain data, for files and for memory that processes share: a
/// reader finds an end also while a writer is at work.
template <size_t N>
class FixedText {
 public:
  FixedText() = default;
  template <class Text>
    requires std::is_convertible_v<Text, std::string_view>
  FixedText(const Text& text) {  // NOLINT
    *this = text;
  }
  template <class Text>
    requires std::is_convertible_v<Text, std::string_view>
  FixedText& operator=(const Text& other) {
    const std::string_view text(other);
    const size_t length = std::min(text.size(), N - 1);
    std::copy_n(text.data(), length, bytes_);
    bytes_[length] = 0;
    return *this;
  }
  operator std::string_view() const { return {bytes_, std::find(bytes_, bytes_ + N - 1, '\0')}; }  // NOLINT
  bool empty() const { return bytes_[0] == 0; }
  bool operator==(std::string_view other) const { return std::string_view(*this) == other; }

 private:
  char bytes_[N] = {};
};

}  // namespace adjoin
