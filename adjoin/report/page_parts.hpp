#pragma once

namespace adjoin::report {

/// The style sheet and the script of the page.
extern const char *const kStyle, *const kScript;

}  // namespace adjoin::report
