#pragma once

#include <sstream>

#include "adjoin/base/error.hpp"

namespace adjoin::insitu {

/// Throws InvalidArgument with the parts of its text, which are joined only then, unless `holds`.
template <class... Parts>
void need(bool holds, const Parts&... parts) {
  if (holds) return;
  std::ostringstream text;
  (text << ... << parts);
  throw InvalidArgument(text.str());
}

}  // namespace adjoin::insitu
