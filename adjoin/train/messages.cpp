#include "adjoin/train/messages.hpp"

#include <unistd.h>

#include <iostream>

#include "adjoin/base/utf8.hpp"
#include "adjoin/comm/launch.hpp"

namespace adjoin::train {

void say(const std::string& line) {
  if (mpi_job_rank() == 0) std::cout << printable(line) + "\n" << std::flush;
}

void warn(const std::string& what) {
  if (mpi_job_rank() == 0) std::cerr << "adjoin: warning: " + printable(what) + "\n" << std::flush;
}

void note(const std::string& message) {
  const std::string end_of_bar = ::isatty(STDERR_FILENO) ? "\n" : "";
  std::cerr << end_of_bar + "adjoin: " + printable(message) + "\n" << std::flush;
}

std::string grouped(int64_t number) {
  const std::string digits = std::to_string(number);
  const size_t sign = number < 0 ? 1 : 0;
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > sign && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string counted(int64_t number, const std::string& thing) {
  return grouped(number) + " " + thing + (number == 1 ? "" : "s");
}

}  // namespace adjoin::train
