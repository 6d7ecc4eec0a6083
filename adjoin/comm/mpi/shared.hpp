#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "adjoin/base/process_owner.hpp"
#include "adjoin/comm/host/meeting.hpp"
#include "adjoin/comm/mpi/mpi_backend.hpp"
#include "adjoin/comm/mpi/pending_table.hpp"

namespace adjoin {

namespace mpi {
class ProcessWorld;
class Progress;
}  // namespace mpi

/// Notes that a call of MPI has failed: what is still to arrive may go into memory that is no longer held.
void note_mpi_failure() noexcept;

/// Throws CommunicationError with MPI's error text unless `code` is success.
void check_mpi(int code, std::string_view call);

int rank_in(MPI_Comm comm);
int ranks_in(MPI_Comm comm);

/// The value of every rank, in the order of ranks.
template <class T>
std::vector<T> gather_all(MPI_Comm comm, const T& mine) {
  std::vector<T> all(static_cast<size_t>(ranks_in(comm)));
  constexpr int kBytes = sizeof(T);
  check_mpi(MPI_Allgather(&mine, kBytes, MPI_BYTE, all.data(), kBytes, MPI_BYTE, comm), "MPI_Allgather");
  return all;
}

/// Whether this process may call MPI; never in the child of a fork.
bool mpi_is_alive();

/// The processes of `comm`, as they meet before they share memory.
class CommMeeting final : public host::Meeting {
 public:
  explicit CommMeeting(MPI_Comm comm) : comm_(comm) {}
  int rank() const override { return rank_in(comm_); }
  int size() const override { return ranks_in(comm_); }
  std::vector<std::string> exchange(const std::string& mine) override {
    const std::vector<int> bytes = gather_all(comm_, static_cast<int>(mine.size()));
    std::vector<int> begins(bytes.size() + 1);
    std::partial_sum(bytes.begin(), bytes.end(), begins.begin() + 1);
    std::string all(static_cast<size_t>(begins.back()), '\0');
    check_mpi(MPI_Allgatherv(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, all.data(), bytes.data(),
                             begins.data(), MPI_BYTE, comm_),
              "MPI_Allgatherv");
    std::vector<std::string> parts;
    for (size_t rank = 0; rank < bytes.size(); ++rank)
      parts.push_back(all.substr(static_cast<size_t>(begins[rank]), static_cast<size_t>(bytes[rank])));
    return parts;
  }

 private:
  const MPI_Comm comm_;
};

/// What all groups of one process share of MPI: the table of pending calls of this host with the watchdog that reads it, and
/// which process reports first when the job fails.
struct MpiShared {
  explicit MpiShared(const MpiOptions& given);
  ~MpiShared();
  /// Prepares all that is below; called on all ranks together. Where it throws, the others may wait for this rank.
  void begin();

  [[noreturn]] void end_job(const std::string& message, int exit_code, bool names_rank = true) const noexcept;
  /// The same for an error that the runtime found, which is not one rank's message. Returns where the world ends, not the job.
  void end_diagnosed(const std::string& report) const noexcept;
  /// Whether MPI is another program's.
  bool is_guest() const { return options.communicator.has_value(); }
  /// Records that this process has more of something at once than the table has room for; the first process of the host warns
  /// of it.
  void note_lack_of_room(const char* of, size_t most) const;

  /// Waits for all ranks to come here, watched, so that a rank that left early is reported where others wait for it. Then
  /// releases what the processes share, before MPI is finalised. Returns the code with which all ranks are to exit: the largest
  /// that any rank gives. A rank that gives another than 0 ends the job where the others have not come after a second.
  std::optional<int> leave(std::optional<int> exit_code) noexcept;
  /// What `leave` does without the other ranks.
  void end() noexcept;
  /// Ends all that uses MPI by itself; called also where the program finalises MPI while this object lives.
  void stop() noexcept;
  /// Whether another process of this host has failed or is gone, or on rank 0 whether one of another host has told it that it
  /// fails; may be called by a signal's handler.
  bool others_failed() const noexcept;

  MpiOptions options;
  MPI_Comm job = MPI_COMM_WORLD;  // of the world's ranks
  int world_rank = 0, world_size = 1;
  std::vector<int> host_of;  // for each rank of the world: the first rank on its host
  std::atomic<uint64_t> worlds_made = 0;
  std::mutex making;        // held while this process makes a group
  mpi::PendingTable table;  // empty where the processes of this host share no memory
  std::unique_ptr<mpi::Progress> progress;
  std::shared_ptr<mpi::ProcessWorld> host_world;  // nullptr where the processes of this host share no tensors' memory
  /// In memory that the processes of a host share; nullptr once that is gone, and in the child of a fork.
  mpi::ProcessEntry* own() const { return process_.is_here() ? own_ : nullptr; }

 private:
  void await_failures();
  void await_finalize();
  /// Waits a second at most for rank 0, which may compute.
  void tell_first_rank() const noexcept;
  void share_table(MPI_Comm host);
  void share_tensors(MPI_Comm host);
  [[noreturn]] void end(const std::string& text, int exit_code) const noexcept;
  bool is_first_to_fail() const noexcept;
  void say(const std::string& message) const noexcept;

  const ProcessOwner process_;
  void* memory_ = nullptr;  // of the table
  mpi::ProcessEntry* own_ = nullptr;
  MPI_Comm failures_ = MPI_COMM_NULL;       // of jobs on several hosts, by which ranks tell rank 0 that they fail
  MPI_Request failure_ = MPI_REQUEST_NULL;  // on rank 0
  int failed_elsewhere_ = 0;                // on rank 0: MPI writes it while rank 0 waits in any call
  int finalize_key_ =
      MPI_KEYVAL_INVALID;  // of an attribute of MPI_COMM_SELF, which MPI_Finalize deletes before all else
  std::jthread watchdog_;
};

}  // namespace adjoin
