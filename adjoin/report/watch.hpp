#pragma once

#include <functional>
#include <iosfwd>
#include <string>

namespace adjoin::report {

/// Where `watch` writes: `columns` is the width of the terminal at the time, or 0 where nothing can be redrawn.
struct WatchScreen {
  std::ostream& out;
  std::function<int()> columns;
};

/// Follows the run in a folder until it ends or the user interrupts: its step, loss and speed in a line that redraws itself on a
/// terminal and comes every few seconds elsewhere, each evaluation, and that nothing has come for long. A run that has not begun
/// is waited for.
/// Throws: InvalidArgument where the folder holds no run; Error where the run has ended without a result
void watch(const std::string& folder, const WatchScreen& screen);
/// The same on standard output.
void watch(const std::string& folder);

}  // namespace adjoin::report
