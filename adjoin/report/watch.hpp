#pragma once

#include <functional>
#include <iosfwd>
#include <string>

namespace adjoin::report {

/// Where `watch` writes. `columns` gives the current width of the terminal, or 0 where nothing can be redrawn.
struct WatchScreen {
  std::ostream& out;
  std::function<int()> columns;
};

/// Follows the run in a folder until it ends or the user interrupts. It shows the run's step, loss and speed (in a line that
/// redraws itself on a terminal, elsewhere in a line every few seconds), each evaluation, and a note when nothing has come for
/// long. It waits for a run that has not begun, and for a folder that is empty or does not exist yet, if the folder around it does.
/// Throws: InvalidArgument where the folder holds something else than a run, or cannot be waited for; Error where the run has
///         ended without a result
void watch(const std::string& folder, const WatchScreen& screen);
/// The same on standard output.
void watch(const std::string& folder);

}  // namespace adjoin::report
