#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace adjoin {

/// A file without a name (memfd_create) whose pages processes of one host and one user share. Other processes open it through
/// /proc as long as its own process keeps it open. It is gone with the last process that maps it, however that ends, and uses
/// nothing of /dev/shm, which is small in many containers.
class SharedFile {
 public:
  /// What another process must know to open it.
  struct Address {
    int64_t pid = 0, file = 0;
    uint64_t token = 0;
  };
  /// The first bytes, which hold the token; all others are zero in the beginning.
  static constexpr size_t kHead = 64;

  // Each throws CommunicationError that says why it failed.

  static SharedFile make(size_t bytes);
  /// Opens the file of another process; `what` names it in errors.
  static SharedFile open(const Address& address, const std::string& what);
  /// Maps the first `bytes` bytes to be read and written: at `place`, where that is not null.
  void* map(size_t bytes, void* place = nullptr) const;

  SharedFile(SharedFile&& other) noexcept : address_(other.address_), file_(std::exchange(other.file_, -1)) {}
  SharedFile& operator=(SharedFile&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(file_, other.file_);
    return *this;
  }
  ~SharedFile();  ///< closes it; what is mapped stays mapped

  const Address& address() const { return address_; }
  int descriptor() const { return file_; }

 private:
  SharedFile(int file, const Address& address) : address_(address), file_(file) {}

  Address address_;
  int file_;
};

/// Throws CommunicationError with the system's reason for the last failure.
[[noreturn]] void throw_system_error(const std::string& what);

}  // namespace adjoin
