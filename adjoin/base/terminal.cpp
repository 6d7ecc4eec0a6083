#include "adjoin/base/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace adjoin {

int terminal_columns(int descriptor) {
  constexpr int kUsual = 80;
  if (::isatty(descriptor) == 0) return 0;
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

bool terminal_can_redraw() {
  const char* name = std::getenv("TERM");
  return name != nullptr && *name != '\0' && std::string_view(name) != "dumb";
}

}  // namespace adjoin
