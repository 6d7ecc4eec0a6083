#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace adjoin::cli {

/// Columns of a page where no terminal says how many it has.
inline constexpr size_t kPage = 80;

/// The text with no line longer than `width` characters: longer ones are broken at spaces, and within a word where that
/// alone is longer. What follows a break begins at column `hanging` where its line begins with a space, else at the
/// line's beginning.
std::string wrapped(std::string_view text, size_t width, size_t hanging);

}  // namespace adjoin::cli
