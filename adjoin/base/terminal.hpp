#pragma once

namespace adjoin {

/// The columns of the terminal behind a file descriptor as it is now, 80 where it does not tell; 0 where there is none.
int terminal_columns(int descriptor);

/// Whether the terminal's cursor can be moved: TERM names one that is not "dumb".
bool terminal_can_redraw();

}  // namespace adjoin
