#pragma once

#include <string>

#include "adjoin/base/text.hpp"

namespace adjoin::train {

/// Prints a line on standard output, at once, and only one for the whole job.
void say(const std::string& line);

/// While one lives, say() prints nothing.
class Silence {
 public:
  Silence();
  ~Silence();
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
};

/// Prints "adjoin: warning: …" on standard error, once for the whole job.
void warn(const std::string& what);

/// Prints "adjoin: …" on standard error, on its own line even while a progress bar is open on a terminal.
void note(const std::string& message);

}  // namespace adjoin::train
