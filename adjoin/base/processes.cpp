#include "adjoin/base/processes.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <sstream>

namespace adjoin {

namespace {

std::atomic<uint32_t> own_id = static_cast<uint32_t>(::getpid());
[[maybe_unused]] const int own_id_is_kept =
    ::pthread_atfork(nullptr, nullptr, [] { own_id.store(static_cast<uint32_t>(::getpid())); });

/// The line "17 (name) S …" that the kernel has of a process.
bool read_stat(int64_t id, std::string& line) {
  std::ifstream stream("/proc/" + std::to_string(id) + "/stat");
  return static_cast<bool>(std::getline(stream, line));
}

}  // namespace

uint32_t id_of_process() {
  return own_id.load(std::memory_order_relaxed);
}

ProcessState state_of_process(int64_t id) {
  std::string line;
  if (!read_stat(id, line))
    return id > 0 && (::kill(static_cast<pid_t>(id), 0) == 0 || errno == EPERM) ? ProcessState::runs
                                                                                : ProcessState::gone;
  const size_t name_end = line.rfind(')');
  const char state = name_end != line.npos && name_end + 2 < line.size() ? line[name_end + 2] : 'R';
  return state == 'Z' || state == 'X'   ? ProcessState::gone
         : state == 'T' || state == 't' ? ProcessState::stopped
                                        : ProcessState::runs;
}

int64_t start_of_process(int64_t id) {
  std::string line, word;
  if (!read_stat(id, line) || line.rfind(')') == line.npos) return 0;
  std::istringstream words(line.substr(line.rfind(')') + 1));
  for (int field = 3; field <= 22; ++field) words >> word;
  return words ? std::stoll(word) : 0;
}

std::string id_of_machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  return std::getline(file, id) ? id : host_name();
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace adjoin
