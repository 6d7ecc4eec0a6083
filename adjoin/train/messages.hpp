#pragma once

#include <string>

#include "adjoin/base/text.hpp"

namespace adjoin::train {

/// A line on standard output, at once and once for a job.
void say(const std::string& line);

/// While one lives, say() says nothing.
class Silence {
 public:
  Silence();
  ~Silence();
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;
};

/// "adjoin: warning: …" on standard error, once for a job.
void warn(const std::string& what);

/// "adjoin: …" on standard error, as a line of its own also where the progress bar's is open on a terminal.
void note(const std::string& message);

}  // namespace adjoin::train
