// Preloaded into a program (LD_PRELOAD), sees what it does to the folder ADJOIN_FAULTS_FOLDER and what is in it, and
//   ADJOIN_FAULTS_LOG=FILE    writes a line for each operation: its name, then its paths, between tabs
//   ADJOIN_FAULTS_KILL=N      kills the process before its N-th operation
//   ADJOIN_FAULTS_HOLD=FILE   holds, as long as there is this file, each write and each synchronisation of what has the text
//                             ADJOIN_FAULTS_HELD in its path
//   ADJOIN_FAULTS_ROOM=BYTES  keeps no room for a file of more bytes: the disk is full
//   ADJOIN_FAULTS_KEEP=TEXT   lets nothing be removed whose path has this text
//
// It calls the system itself, so that nothing depends on what else is loaded (sanitizers define these functions too).

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <ctime>
#include <string>

namespace {

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string path_of(int descriptor) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const auto length = ::readlink(link.c_str(), path, sizeof path);
  return length < 0 ? "" : std::string(path, static_cast<size_t>(length));
}

std::string path_at(int folder, const char* path) {
  return *path == '/' || folder == AT_FDCWD ? path : path_of(folder) + "/" + path;
}

bool is_watched(const std::string& path) {
  static const std::string folder = setting("ADJOIN_FAULTS_FOLDER");
  return !folder.empty() && (path == folder || path.starts_with(folder + "/"));
}

void log(const std::string& line) {
  static const std::string file = setting("ADJOIN_FAULTS_LOG");
  if (file.empty()) return;
  const auto log = ::syscall(SYS_openat, AT_FDCWD, file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  ::syscall(SYS_write, log, line.data(), line.size());
  ::syscall(SYS_close, log);
}

void wait(const std::string& path) {
  static const std::string held = setting("ADJOIN_FAULTS_HELD"), file = setting("ADJOIN_FAULTS_HOLD");
  if (file.empty() || !is_watched(path) || path.find(held) == path.npos) return;
  const timespec pause{0, 1'000'000};
  while (::access(file.c_str(), F_OK) == 0) ::nanosleep(&pause, nullptr);
}

/// Before each operation.
void see(const char* operation, const std::string& path, const std::string& to = "") {
  static std::atomic<long> seen = 0;
  static const long kill_before = std::atol(setting("ADJOIN_FAULTS_KILL").c_str());
  if (!is_watched(path)) return;
  if (++seen == kill_before) ::kill(::getpid(), SIGKILL);
  log(std::string(operation) + '\t' + path + (to.empty() ? "" : '\t' + to) + '\n');
}

bool is_kept(const std::string& path) {
  static const std::string kept = setting("ADJOIN_FAULTS_KEEP");
  return !kept.empty() && is_watched(path) && path.find(kept) != path.npos;
}

bool is_full(const std::string& path, off_t bytes) {
  static const std::string most = setting("ADJOIN_FAULTS_ROOM");
  return !most.empty() && is_watched(path) && bytes > std::atol(most.c_str());
}

int removed(int folder, const char* path, int flags) {
  const std::string full = path_at(folder, path);
  see("remove", full);
  if (!is_kept(full)) return static_cast<int>(::syscall(SYS_unlinkat, folder, path, flags));
  errno = EBUSY;
  return -1;
}

int opened(int folder, const char* path, int flags, mode_t mode) {
  if (flags & (O_CREAT | O_WRONLY | O_RDWR)) see("open", path_at(folder, path));
  return static_cast<int>(::syscall(SYS_openat, folder, path, flags, mode));
}

mode_t mode_in(int flags, va_list arguments) {
  return flags & O_CREAT ? static_cast<mode_t>(va_arg(arguments, unsigned)) : 0;
}

int synchronised(long call, int descriptor) {
  const std::string path = path_of(descriptor);
  see("sync", path);
  wait(path);
  return static_cast<int>(::syscall(call, descriptor));
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_in(flags, arguments);
  va_end(arguments);
  return opened(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_in(flags, arguments);
  va_end(arguments);
  return opened(folder, path, flags, mode);
}

ssize_t write(int descriptor, const void* data, size_t bytes) {
  const std::string path = path_of(descriptor);
  see("write", path);
  wait(path);
  return ::syscall(SYS_write, descriptor, data, bytes);
}

ssize_t pwrite(int descriptor, const void* data, size_t bytes, off_t offset) {
  const std::string path = path_of(descriptor);
  see("write", path);
  wait(path);
  return ::syscall(SYS_pwrite64, descriptor, data, bytes, offset);
}

int fallocate(int descriptor, int mode, off_t begin, off_t bytes) {
  const std::string path = path_of(descriptor);
  see("write", path);
  if (is_full(path, bytes)) {
    errno = ENOSPC;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fallocate, descriptor, mode, begin, bytes));
}

int ftruncate(int descriptor, off_t length) noexcept {
  see("write", path_of(descriptor));
  return static_cast<int>(::syscall(SYS_ftruncate, descriptor, length));
}

int fsync(int descriptor) {
  return synchronised(SYS_fsync, descriptor);
}
int fdatasync(int descriptor) {
  return synchronised(SYS_fdatasync, descriptor);
}

int mkdir(const char* path, mode_t mode) noexcept {
  see("mkdir", path);
  return static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

int rename(const char* from, const char* to) noexcept {
  see("rename", from, to);
  return static_cast<int>(::syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
}

int unlink(const char* path) noexcept {
  return removed(AT_FDCWD, path, 0);
}
int rmdir(const char* path) noexcept {
  return removed(AT_FDCWD, path, AT_REMOVEDIR);
}
int unlinkat(int folder, const char* path, int flags) noexcept {
  return removed(folder, path, flags);
}
int remove(const char* path) noexcept {
  const int result = removed(AT_FDCWD, path, 0);
  return result != 0 && errno == EISDIR ? removed(AT_FDCWD, path, AT_REMOVEDIR) : result;
}

}  // extern "C"
