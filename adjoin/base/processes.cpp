#include "adjoin/base/processes.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>

namespace adjoin {

ProcessState state_of_process(int64_t id) {
  std::ifstream stream("/proc/" + std::to_string(id) + "/stat");
  std::string line;
  if (!std::getline(stream, line))
    return id > 0 && (::kill(static_cast<pid_t>(id), 0) == 0 || errno == EPERM) ? ProcessState::runs
                                                                                : ProcessState::gone;
  const size_t name_end = line.rfind(')');  // "17 (name) S …"
  const char state = name_end != line.npos && name_end + 2 < line.size() ? line[name_end + 2] : 'R';
  return state == 'Z' || state == 'X'   ? ProcessState::gone
         : state == 'T' || state == 't' ? ProcessState::stopped
                                        : ProcessState::runs;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace adjoin
