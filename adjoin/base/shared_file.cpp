#include "adjoin/base/shared_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "adjoin/base/error.hpp"

namespace adjoin {

void throw_system_error(const std::string& what) {
  throw CommunicationError(what + ": " + std::strerror(errno));
}

SharedFile SharedFile::make(size_t bytes) {
  rlimit largest_file{};
  ::getrlimit(RLIMIT_FSIZE, &largest_file);
  if (largest_file.rlim_cur < bytes) {  // otherwise a signal would end the process
    errno = EFBIG;
    throw_system_error("the largest file size (ulimit -f) is less than the shared memory needs");
  }
  const int file = ::memfd_create("adjoin", MFD_CLOEXEC);
  if (file < 0) throw_system_error("memfd_create");
  std::random_device random;
  const Address address{::getpid(), file, uint64_t{random()} << 32 | random()};
  SharedFile made(file, address);
  if (::ftruncate(file, static_cast<off_t>(bytes)) != 0) throw_system_error("ftruncate of the shared memory");
  if (::pwrite(file, &address.token, sizeof(address.token), 0) != sizeof(address.token))
    throw_system_error("write to the shared memory");
  return made;
}

SharedFile SharedFile::open(const Address& address, const std::string& what) {
  const std::string path = "/proc/" + std::to_string(address.pid) + "/fd/" + std::to_string(address.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (file < 0)
    throw_system_error(what + " cannot be opened: its process may belong to another user, container or PID namespace");
  SharedFile opened(file, address);
  // Here the number may be that of another file, which may be shorter than the mapping.
  uint64_t token = 0;
  if (::pread(file, &token, sizeof(token), 0) != sizeof(token) || token != address.token)
    throw CommunicationError(what + " was not found: its process is in another container or PID namespace");
  return opened;
}

void* SharedFile::map(size_t bytes, void* place) const {
  const int fixed = place ? MAP_FIXED : 0;
  void* memory = ::mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | fixed, file_, 0);
  if (memory == MAP_FAILED) throw_system_error("mmap of the shared memory");
  return memory;
}

SharedFile::~SharedFile() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace adjoin
