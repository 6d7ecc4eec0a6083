#pragma once

namespace adjoin {

/// The current columns of the terminal behind a file descriptor; 80 where it does not say, 0 where there is no
/// terminal.
int terminal_columns(int descriptor);

/// Whether the terminal's cursor can be moved: TERM names one that is not "dumb".
bool terminal_can_redraw();

}  // namespace adjoin
