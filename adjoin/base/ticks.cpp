#include "adjoin/base/ticks.hpp"

#include <fstream>
#include <string>

namespace adjoin {

bool counts_time() {
  std::string source;
  std::ifstream("/sys/devices/system/clocksource/clocksource0/current_clocksource") >> source;
  return source == "tsc";
}

}  // namespace adjoin
