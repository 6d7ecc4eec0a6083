#include "adjoin/train/say.hpp"

#include <unistd.h>

#include <iostream>

namespace adjoin::train {

void say(const std::string& message) {
  const std::string end_of_bar = ::isatty(STDERR_FILENO) ? "\n" : "";
  std::cerr << end_of_bar + "adjoin: " + message + "\n" << std::flush;
}

}  // namespace adjoin::train
