#include "adjoin/base/shared_memory.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <new>
#include <string>

#include "adjoin/base/error.hpp"

namespace adjoin {

namespace {

SharedMemory::Current kept = nullptr;
std::atomic<SharedMemory::Current*> kept_here = &kept;

/// A number below `most` that no other process of this host holds; it is free again when this process has ended, however it
/// does. `holder` becomes the socket to whose name it belongs.
int take_number(int most, int& holder) {
  holder = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (holder < 0) throw_system_error("socket");
  for (int number = 0; number < most; ++number) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;  // and a first byte 0: a name that is in no folder
    const int length = std::snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "adjoin-%d", number);
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
    if (::bind(holder, reinterpret_cast<const sockaddr*>(&address), bytes) == 0) return number;
    if (errno != EADDRINUSE) throw_system_error("bind");
  }
  ::close(holder);
  throw CommunicationError("more than " + std::to_string(most) + " processes of this host share memory");
}

bool is_mapped(void* wanted, size_t bytes, int protection, int flags, int file) {
  void* got = ::mmap(wanted, bytes, protection, flags | MAP_NORESERVE, file, 0);
  if (got == wanted) return true;
  if (got != MAP_FAILED) ::munmap(got, bytes);  // an older system that treats the address as a hint
  return false;
}

}  // namespace

/// The data at the beginning of each part, all zero at first.
struct SharedMemory::Head {
  std::byte of_file[SharedFile::kHead];
  std::atomic<int> cores[kMostProcesses];  // only those of the first part are used
  std::byte until_notice[kNoticeAt - SharedFile::kHead - sizeof(cores)];
  std::byte notice[kNoticeBytes];
};

/// What is done around fork(): the child copies the memory of its part, and the parent waits for that.
class SharedMemory::Fork {
 public:
  static void watch() { ::pthread_atfork(&before, &in_parent, &in_child); }

 private:
  static void before() {
    SharedMemory& memory = *current();
    if (memory.blocks_) memory.blocks_->lock();
    memory.heap_->mutex().lock();
    if (::pipe2(pipe_, O_CLOEXEC) != 0) pipe_[0] = pipe_[1] = -1;
  }
  static void in_parent() {
    ::close(pipe_[1]);
    char byte = 0;
    while (::read(pipe_[0], &byte, 1) < 0 && errno == EINTR) {  // until the child has closed its end or is gone
    }
    ::close(pipe_[0]);
    unlock(*current());
  }
  static void in_child() {
    SharedMemory& memory = *current();
    if (memory.file_) memory.make_private();
    if (memory.number_holder_ >= 0) ::close(memory.number_holder_);  // the number is the parent's
    memory.number_holder_ = -1;
    ::close(pipe_[0]);
    ::close(pipe_[1]);
    unlock(memory);
  }
  static void unlock(SharedMemory& memory) {
    memory.heap_->mutex().unlock();
    if (memory.blocks_) memory.blocks_->unlock();
  }

  static inline int pipe_[2] = {-1, -1};  // guarded by the heap's lock
};

std::span<const uintptr_t> SharedMemory::places() {
  // Between where programs are and what the system maps; the last one is where ThreadSanitizer lets programs have
  // memory.
  static constexpr uintptr_t kPlaces[] = {0x2000'0000'0000, 0x3000'0000'0000, 0x1800'0000'0000, 0x7e90'0000'0000};
  return kPlaces;
}

std::unique_ptr<SharedMemory> SharedMemory::at(uintptr_t place, int processes) {
  if (processes > kMostProcesses)
    throw CommunicationError("more than " + std::to_string(kMostProcesses) + " ranks on one host");
  constexpr size_t kMost = size_t{1} << 44;  // of all parts together
  const size_t wanted = std::bit_ceil(bytes_of_machine()) * 2;
  const size_t bytes_of_part = std::min(wanted, std::bit_floor(kMost / static_cast<size_t>(processes)));
  const size_t bytes = bytes_of_part * static_cast<size_t>(processes);
  if (!is_mapped(reinterpret_cast<void*>(place), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                 -1))
    return nullptr;
  return std::unique_ptr<SharedMemory>(new SharedMemory(place, bytes_of_part, processes));
}

SharedMemory::SharedMemory(uintptr_t begin, size_t bytes_of_part, int processes)
    : begin_(begin), bytes_of_part_(bytes_of_part), processes_(processes), attached_(static_cast<size_t>(processes)) {}

SharedMemory::~SharedMemory() {
  if (number_holder_ >= 0) ::close(number_holder_);
  ::munmap(part(0), bytes_of_part_ * static_cast<size_t>(processes_));
}

SharedFile::Address SharedMemory::make_part(int own, size_t bytes) {
  own_ = own;
  file_ = SharedFile::make(bytes_of_part_);
  file_->map(bytes_of_part_, part(own));
  constexpr size_t kHead = (sizeof(Head) + BlockHeap::kLine - 1) / BlockHeap::kLine * BlockHeap::kLine;
  const size_t apart = BlockHeap::kApart * static_cast<size_t>(own), unused = kHead + apart;
  heap_.emplace(static_cast<char*>(part(own)) + unused, bytes - unused);
  if (bytes < bytes_of_part_)
    blocks_.emplace(*file_, static_cast<char*>(part(own)) + bytes, bytes_of_part_ - bytes, bytes, apart);
  return attached_[static_cast<size_t>(own)] = file_->address();
}

void SharedMemory::attach(std::span<const SharedFile::Address> parts) {
  for (int process = 0; process < processes_; ++process)
    attach({begin_, processes_, process, parts[static_cast<size_t>(process)]},
           "the memory of local rank " + std::to_string(process));
}

void SharedMemory::attach(const Place& other, const std::string& what) {
  if (other.begin != begin_ || other.processes != processes_) throw CommunicationError(what + " is at other addresses");
  SharedFile::Address& there = attached_[static_cast<size_t>(other.own)];
  if (there.token == other.part.token) return;
  if (other.own == own_) throw CommunicationError(what + " has the number of this process: another network namespace?");
  const int process = static_cast<int>(other.own);
  SharedFile::open(other.part, what).map(bytes_of_part_, part(process));
  ::madvise(part(process), bytes_of_part_, MADV_DONTDUMP);  // its own process's core dump contains it
  there = other.part;
}

std::unique_ptr<SharedMemory> SharedMemory::alone() {
  std::unique_ptr<SharedMemory> memory;
  for (const uintptr_t place : places())
    if ((memory = at(place, kMostAlone))) break;
  if (!memory) throw_system_error("no range of addresses is free (ulimit -v?)");
  memory->make_part(take_number(kMostAlone, memory->number_holder_), memory->bytes_of_part_ / 4);
  return memory;
}

void SharedMemory::keep(std::unique_ptr<SharedMemory> memory) {
  kept_here.load()->store(memory.release());
  Fork::watch();
}

SharedMemory* SharedMemory::current() {
  return kept_here.load(std::memory_order_acquire)->load(std::memory_order_acquire);
}

SharedMemory::Current& SharedMemory::variable() {
  return *kept_here.load();
}

void SharedMemory::use(Current& variable) {
  kept_here.store(&variable);
}

void* SharedMemory::Resource::do_allocate(size_t bytes, size_t) {
  void* block = memory.allocate(bytes);
  if (!block) throw std::bad_alloc();
  return block;
}

std::span<std::atomic<int>> SharedMemory::cores() const {
  return {static_cast<Head*>(part(0))->cores, static_cast<size_t>(processes_)};
}

/// In the child of a fork: puts a copy of what is shared of its own part in its place.
void SharedMemory::make_private() {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  const size_t before = bytes_of_part_ * static_cast<size_t>(own_),
               after = bytes_of_part_ * static_cast<size_t>(processes_ - own_ - 1);
  if ((before > 0 && !is_mapped(part(0), before, PROT_NONE, kFlags, -1)) ||
      (after > 0 && !is_mapped(part(own_ + 1), after, PROT_NONE, kFlags, -1)))
    ::_exit(127);
  const auto copy = [this](size_t first, size_t last) {
    char* const own = static_cast<char*>(part(own_));
    if (!is_mapped(own + first, last - first, PROT_READ | PROT_WRITE, kFlags, -1)) ::_exit(127);
    if (first > 0) ::madvise(own + first, last - first, MADV_HUGEPAGE);  // takes half as long
    auto begin = static_cast<off_t>(first);
    while ((begin = ::lseek(file_->descriptor(), begin, SEEK_DATA)) >= 0 && begin < static_cast<off_t>(last)) {
      const off_t end = std::min(::lseek(file_->descriptor(), begin, SEEK_HOLE), static_cast<off_t>(last));
      for (ssize_t got = 0; begin < end; begin += got)
        if ((got = ::pread(file_->descriptor(), own + begin, static_cast<size_t>(end - begin), begin)) <= 0)
          ::_exit(127);
    }
  };
  copy(0, blocks_ ? bytes_of_part_ / 4 : bytes_of_part_);
  if (blocks_) blocks_->end_sharing(copy);
  file_.reset();
}

}  // namespace adjoin
