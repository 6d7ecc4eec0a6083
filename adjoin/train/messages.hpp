#pragma once

#include <cstdint>
#include <string>

namespace adjoin::train {

/// A line on standard output, at once and once for a job.
void say(const std::string& line);

/// "adjoin: warning: …" on standard error, once for a job.
void warn(const std::string& what);

/// "adjoin: …" on standard error, as a line of its own also where the progress bar's is open on a terminal.
void note(const std::string& message);

/// 1234567 -> "1,234,567".
std::string grouped(int64_t number);

/// "1 head", "1,000 heads".
std::string counted(int64_t number, const std::string& thing);

}  // namespace adjoin::train
