#include "adjoin/lab/flight_record.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/processes.hpp"
#include "adjoin/lab/flight_file.hpp"

namespace adjoin::lab {

using flight_file::CallSlot;
using flight_file::File;
using flight_file::GroupSlot;

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr uint64_t kClockEvery = 64;  // number of calls between two readings of the steady clock

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw IoError(path.string() + ": cannot be written: " + std::strerror(error));
}

/// Writes the whole record to a new file and allocates its space on disk. Returns 0 or the error.
int write_all(int descriptor, const File& file) {
  if (const int error = ::posix_fallocate(descriptor, 0, sizeof(File))) return error;
  const char* bytes = reinterpret_cast<const char*>(&file);
  for (size_t done = 0; done < sizeof(File);) {
    const ssize_t written = ::pwrite(descriptor, bytes + done, sizeof(File) - done, static_cast<off_t>(done));
    if (written <= 0 && errno != EINTR) return written == 0 ? ENOSPC : errno;
    if (written > 0) done += static_cast<size_t>(written);
  }
  return 0;
}

/// Numbers as progressions: the first, the step and the count of each, one progression after another.
std::vector<int32_t> progressions_of(const std::vector<int>& numbers) {
  std::vector<int32_t> all;
  for (size_t i = 0; i < numbers.size();) {
    const int step = i + 1 < numbers.size() ? numbers[i + 1] - numbers[i] : 1;
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] - numbers[end - 1] == step) ++end;
    all.insert(all.end(), {numbers[i], step, static_cast<int32_t>(end - i)});
    i = end;
  }
  return all;
}

}  // namespace

FlightRecord::FlightRecord(int rank, int ranks) {
  void* memory = ::mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  file_ = new (memory) File{};
  file_->magic = flight_file::kMagic;
  file_->rank = rank, file_->ranks = ranks;
  file_->process = ::getpid();
  file_->host = host_name();
  file_->first = tick_pair();
  file_->last_ticks = file_->first.ticks, file_->last_steady = file_->first.steady;
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  file_->to_wall = std::chrono::nanoseconds(wall).count() - file_->first.steady;
}

FlightRecord::~FlightRecord() {
  ::munmap(file_, sizeof(File));
}

void FlightRecord::keep_in(const std::filesystem::path& path) {
  ::unlink(path.c_str());  // a process that reads or still writes the old file keeps it
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) fail(path, errno);
  int error = write_all(descriptor, *file_);
  void* memory = MAP_FAILED;
  if (error == 0) {
    memory = ::mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) error = errno;
  }
  ::close(descriptor);
  // Mapped at the address of the previous memory, as other threads of the rank may be writing there.
  if (error == 0 && ::mremap(memory, sizeof(File), sizeof(File), MREMAP_MAYMOVE | MREMAP_FIXED, file_) == MAP_FAILED) {
    error = errno;
    ::munmap(memory, sizeof(File));
  }
  if (error != 0) {
    ::unlink(path.c_str());
    fail(path, error);
  }
  is_kept_ = true;
}

void FlightRecord::note_end() noexcept {
  flight_file::State runs = flight_file::State::runs;
  file_->state.compare_exchange_strong(runs, flight_file::State::ended);
}

void FlightRecord::note_failure(std::string_view why) noexcept {
  flight_file::State runs = flight_file::State::runs;
  if (!file_->state.compare_exchange_strong(runs, flight_file::State::tells)) return;
  file_->failed = ticks();
  file_->failure = why;
  file_->state = flight_file::State::failed;
}

void FlightRecord::begin(const Call& call) {
  note_meeting(*call.group, call.meeting);
  const uint64_t place = file_->calls.fetch_add(1, kRelaxed) + 1;
  CallSlot& slot = file_->slots[place % flight_file::kCalls];
  slot.place.store(0, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  slot.place_again.store(place, kRelaxed);
  std::atomic_ref(slot.call.end).store(0, kRelaxed);
  slot.call.note_in_world(call);
  slot.call.begin = ticks();
  slot.place.store(place, std::memory_order_release);
  // Often at the beginning, as the length of a tick is not yet known.
  if (place % kClockEvery != 0 && !std::has_single_bit(place)) return;
  const TickPair now = tick_pair();
  file_->last_ticks.store(now.ticks, kRelaxed);
  file_->last_steady.store(now.steady, kRelaxed);
}

void FlightRecord::end(const Call& call) {
  const int64_t now = ticks();
  if (CallSlot* slot = slot_of(call))
    std::atomic_ref(slot->call.end).store(std::uncaught_exceptions() > 0 ? -now : now, kRelaxed);
}

void FlightRecord::begin_wait(const Call* begun) {
  file_->wait_group.store(begun ? begun->group->id : 0, kRelaxed);
  file_->wait_number.store(begun ? begun->sequence : 0, kRelaxed);
  file_->wait_begin.store(ticks(), kRelaxed);
}

void FlightRecord::end_wait(const Call*) {
  if (std::uncaught_exceptions() == 0) file_->wait_begin.store(0, kRelaxed);  // else the rank has failed in the wait
}

/// The slot of the newest call, except for calls that other threads of the rank have begun since; none where 200 were
/// begun since.
CallSlot* FlightRecord::slot_of(const Call& call) const {
  const uint64_t newest = file_->calls.load(kRelaxed);
  for (uint64_t place = newest; place > 0 && place + flight_file::kCalls > newest; --place) {
    CallSlot& slot = file_->slots[place % flight_file::kCalls];
    if (slot.place.load(std::memory_order_acquire) == place &&
        std::atomic_ref(slot.call.number).load(kRelaxed) == call.sequence &&
        std::atomic_ref(slot.call.group).load(kRelaxed) == call.group->id)
      return &slot;
  }
  return nullptr;
}

void FlightRecord::note_meeting(const GroupIdentity& group, uint64_t meeting) {
  if (group.id == 0) {
    if (meeting > 0) file_->world_meeting.store(meeting, kRelaxed);
    return;
  }
  GroupSlot* slot = place_for(group.id);
  if (slot->id.load(std::memory_order_acquire) == 0) slot = add_group(group);
  if (slot && meeting > 0) slot->meeting.store(meeting, kRelaxed);
}

/// The group's slot, or the free one that it may take.
GroupSlot* FlightRecord::place_for(uint64_t id) const {
  size_t place = id % flight_file::kGroups;
  for (uint64_t there; (there = file_->groups[place].id.load(std::memory_order_acquire)) != id && there != 0;)
    place = (place + 1) % flight_file::kGroups;
  return &file_->groups[place];
}

GroupSlot* FlightRecord::add_group(const GroupIdentity& group) {
  if (groups_.load(kRelaxed) == flight_file::kMostGroups) return nullptr;
  const std::lock_guard lock(groups_mutex_);
  GroupSlot* slot = place_for(group.id);
  if (slot->id.load(kRelaxed) == group.id) return slot;  // another thread was faster
  const std::vector<int32_t> members = progressions_of(group.world_ranks);
  if (members_ + members.size() <= flight_file::kMembers) {
    std::copy(members.begin(), members.end(), file_->members + members_);
    slot->members = static_cast<uint32_t>(members_);
    slot->progressions = static_cast<uint32_t>(members.size() / 3);
    members_ += members.size();
  }
  slot->id.store(group.id, std::memory_order_release);
  groups_.fetch_add(1, kRelaxed);
  return slot;
}

}  // namespace adjoin::lab
