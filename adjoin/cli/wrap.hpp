#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace adjoin::cli {

/// The columns of a page if no terminal gives a number.
inline constexpr size_t kPage = 80;

/// The text with no line longer than `width` characters: longer lines are broken at spaces, and a longer word after | , or /, if
/// it has one of these.
/// After a break, text continues at column `hanging` if its line begins with a space, else at the beginning of the line.
std::string wrapped(std::string_view text, size_t width, size_t hanging);

}  // namespace adjoin::cli
