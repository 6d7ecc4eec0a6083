#include "adjoin/comm/mpi/shared.hpp"

#include <unistd.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "adjoin/base/error.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/comm/mpi/in_job.hpp"
#include "adjoin/comm/mpi/mpi_backend.hpp"
#include "adjoin/comm/mpi/pending_table.hpp"
#include "adjoin/comm/mpi/process_world.hpp"

namespace adjoin {

void check_mpi(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommunicationError(std::string(call) + " failed: " + std::string(text, static_cast<size_t>(length)));
}

bool mpi_is_alive() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized && !finalized;
}

MpiShared::MpiShared(const MpiOptions& given) : options(given) {
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  MPI_Comm host;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
  if (options.ranks_of_a_host > 0) {
    int rank = 0;
    MPI_Comm whole = host;
    MPI_Comm_rank(whole, &rank);
    check_mpi(MPI_Comm_split(whole, rank / options.ranks_of_a_host, rank, &host), "MPI_Comm_split");
    MPI_Comm_free(&whole);
  }
  host_of.resize(static_cast<size_t>(world_size));
  int first = world_rank;
  MPI_Bcast(&first, 1, MPI_INT, 0, host);
  MPI_Allgather(&first, 1, MPI_INT, host_of.data(), 1, MPI_INT, MPI_COMM_WORLD);
  share_table(host);
  share_tensors(host);
  MPI_Comm_free(&host);
}

void MpiShared::share_table(MPI_Comm host) {
  int host_rank = 0, host_size = 1;
  MPI_Comm_rank(host, &host_rank);
  MPI_Comm_size(host, &host_size);
  void* memory = nullptr;
  const size_t bytes = host_rank == 0 ? mpi::PendingTable::bytes_for(host_size) : 0;
  MPI_Comm_set_errhandler(host, MPI_ERRORS_RETURN);
  if (MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, host, &memory, &window_) != MPI_SUCCESS) {
    window_ = MPI_WIN_NULL;
    if (host_rank == 0)
      say("adjoin: warning: MPI cannot share memory between the processes of this host, so deadlocks and missed "
          "deadlines will not be reported");
    return;
  }
  MPI_Aint size = 0;
  int unit = 0;
  MPI_Win_shared_query(window_, 0, &size, &unit, &memory);
  table = mpi::PendingTable::at(memory, host_size);
  if (host_rank == 0) table.clear();
  MPI_Barrier(host);
  own = &table.processes[static_cast<size_t>(host_rank)];
  own->pid.store(::getpid());
  own->world_rank.store(world_rank);
  MPI_Barrier(host);  // until then no process may look as if it had returned
  watchdog_ = mpi::watch(table, *own, world_size, options.deadline,
                         [this](const std::string& report) { end_diagnosed(report); });
}

void MpiShared::share_tensors(MPI_Comm host) {
  int host_rank = 0, host_size = 1;
  MPI_Comm_rank(host, &host_rank);
  MPI_Comm_size(host, &host_size);
  // Ranks may have been given different values: off on one rank counts for all ranks, otherwise on does.
  int words[] = {options.host_memory == HostMemory::off ? 1 : 0, options.host_memory == HostMemory::on ? 1 : 0};
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, words, 2, MPI_INT, MPI_MAX, host), "MPI_Allreduce");
  const auto [is_off, is_on] = words;
  const std::string why_none =
      is_off != 0 ? "--host-memory or ADJOIN_HOST_MEMORY turns it off" : mpi::share_host_memory(host);
  note_host_memory({why_none.empty() ? host_size : 0, why_none});
  ranks_begin();
  if (why_none.empty()) {
    host_world = std::make_shared<mpi::ProcessWorld>(*this, *SharedMemory::current(), host);
    return;
  }
  if (is_on == 0 || host_size == 1) return;
  if (host_rank == 0) end_job("--host-memory on: the ranks of this host share no memory: " + why_none, 2);
  MPI_Barrier(host);  // ends with the job
}

void MpiShared::leave() noexcept {
  MPI_Barrier(MPI_COMM_WORLD);
  watchdog_ = {};
  own = nullptr;
  if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
}

void MpiShared::note_lack_of_room(const char* of, size_t most) const {
  if (!own) return;
  own->lacks_room.store(true);
  if (table.host->has_warned.exchange(true)) return;
  say("adjoin: warning: rank " + std::to_string(world_rank) + ": only " + std::to_string(most) + " " + of +
      " can be watched at once: a deadlock in which others wait for a rank with more is reported only at the deadline");
}

bool MpiShared::is_first_to_fail() const noexcept {
  return !own || !table.host->somebody_failed.exchange(true);
}

void MpiShared::say(const std::string& message) const noexcept {
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", message.c_str());
  std::fflush(stderr);
}

void MpiShared::end_job(const std::string& message, int exit_code, bool names_rank) const noexcept {
  end((names_rank ? "rank " + std::to_string(world_rank) + ": " : "") + printable(message), exit_code);
}

void MpiShared::end_diagnosed(const std::string& report) const noexcept {
  end(report, 1);
}

void MpiShared::end(const std::string& text, int exit_code) const noexcept {
  if (is_first_to_fail()) {
    const std::string more = options.at_failure ? options.at_failure(text) : "";
    say("adjoin: " + text + (more.empty() ? "" : "\nadjoin: " + more));
  } else {
    std::this_thread::sleep_for(std::chrono::seconds(5));  // the first one's MPI_Abort ends this process
  }
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

namespace {

/// Over TCP OpenMPI sends a message longer than 64 KiB when the receiver has answered, and the answer waits behind what that rank
/// sends itself. So what two stages of a pipeline send each other would go one after the other.
void send_at_once() {
  ::setenv("OMPI_MCA_btl_tcp_eager_limit", "1048576", /*overwrite=*/0);
}

}  // namespace

MpiSession::MpiSession(const MpiOptions& options) {
  int initialized = 0, level = 0;
  MPI_Initialized(&initialized);
  require(!initialized || mpi_is_alive(),
          "MPI was finalised in this process, by an earlier launch or by the program, and cannot be initialised again: "
          "to launch several times, initialise MPI before the first launch");
  if (!initialized) {
    send_at_once();
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
  }
  finalizes_ = !initialized;
  shared_ = std::make_shared<MpiShared>(options);
}

MpiSession::~MpiSession() {
  if (!mpi_is_alive()) return;
  shared_->leave();
  if (finalizes_) MPI_Finalize();
}

std::shared_ptr<Backend> MpiSession::world() const {
  return mpi::backend_on(mpi::Group::of_world(shared_),
                         std::make_shared<mpi::Agent>(shared_, /*is_for_any_thread=*/false, /*is_ranks_own=*/true));
}

}  // namespace adjoin
