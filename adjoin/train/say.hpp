#pragma once

#include <string>

namespace adjoin::train {

/// Prints "adjoin: MESSAGE" on standard error, as a line of its own also where the progress bar's is open on a terminal.
void say(const std::string& message);

}  // namespace adjoin::train
