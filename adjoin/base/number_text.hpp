#pragma once

#include <charconv>
#include <string>

namespace adjoin {

/// A number in as few digits as tell it from all others.
inline std::string shortest_text(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

}  // namespace adjoin
