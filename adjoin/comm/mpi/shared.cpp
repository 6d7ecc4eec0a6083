#include "adjoin/comm/mpi/shared.hpp"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "adjoin/base/carried_state.hpp"
#include "adjoin/base/error.hpp"
#include "adjoin/base/shared_file.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/comm/mpi/in_job.hpp"
#include "adjoin/comm/mpi/mpi_backend.hpp"
#include "adjoin/comm/mpi/pending_table.hpp"
#include "adjoin/comm/mpi/process_world.hpp"
#include "adjoin/comm/mpi/progress.hpp"

namespace adjoin {
namespace {

/// Of the latest session, for signals' handlers.
std::atomic<const MpiShared*> latest = nullptr;

std::atomic<bool> has_mpi_failed = false;

}  // namespace

void note_mpi_failure() noexcept {
  has_mpi_failed.store(true);
}

void check_mpi(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  note_mpi_failure();
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommunicationError(std::string(call) + " failed: " + std::string(text, static_cast<size_t>(length)));
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

int ranks_in(MPI_Comm comm) {
  int ranks = 1;
  MPI_Comm_size(comm, &ranks);
  return ranks;
}

bool mpi_is_alive() {
  static const ProcessOwner process;
  if (!process.is_here()) return false;
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized && !finalized;
}

MpiShared::MpiShared(const MpiOptions& given) : options(given) {}

MpiShared::~MpiShared() {
  if (!process_.is_here()) {
    watchdog_.detach();  // the thread does not exist in the child of a fork
    static_cast<void>(progress.release());
  } else if (memory_) {
    watchdog_ = {};  // it reads the table
    ::munmap(memory_, mpi::PendingTable::bytes_for(static_cast<int>(table.processes.size())));
  }
}

void MpiShared::begin() {
  int level = 0;
  MPI_Query_thread(&level);
  progress = std::make_unique<mpi::Progress>(/*has_thread=*/level == MPI_THREAD_MULTIPLE);
  if (is_guest()) {
    const MPI_Comm given = MPI_Comm_f2c(*options.communicator);
    require(given && given != MPI_COMM_NULL,
            "expected a communicator of MPI's, got none");  // for which MPI ends the job
    // MPICH asks the world's handler what to do where `given` is no communicator.
    MPI_Errhandler of_program = MPI_ERRHANDLER_NULL;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &of_program);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int has_two_groups = 0;
    int failure = MPI_Comm_test_inter(given, &has_two_groups);
    if (failure == MPI_SUCCESS && !has_two_groups) failure = MPI_Comm_dup(given, &job);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, of_program);
    MPI_Errhandler_free(&of_program);
    check_mpi(failure, "MPI_Comm_dup");
    require(!has_two_groups, "expected a communicator of one group, got an intercommunicator");
    check_mpi(MPI_Comm_set_errhandler(job, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    CommMeeting all(job);
    const std::string refusal = host::failure_of_all(
        all, [&] { require(options.refusal.empty(), "rank ", rank_in(job), ": ", options.refusal); });
    require(refusal.empty(), refusal);
    await_finalize();
  }
  world_rank = rank_in(job);
  world_size = ranks_in(job);
  options.checked = std::ranges::max(gather_all(job, options.checked ? 1 : 0)) != 0;  // what is compared, all send
  MPI_Comm host;
  check_mpi(MPI_Comm_split_type(job, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
  if (options.ranks_of_a_host > 0) {
    MPI_Comm whole = host;
    const int rank = rank_in(whole);
    check_mpi(MPI_Comm_split(whole, rank / options.ranks_of_a_host, rank, &host), "MPI_Comm_split");
    MPI_Comm_free(&whole);
  }
  int first = world_rank;
  check_mpi(MPI_Comm_set_errhandler(host, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Bcast(&first, 1, MPI_INT, 0, host), "MPI_Bcast");
  host_of = gather_all(job, first);
  await_failures();
  share_table(host);
  share_tensors(host);
  MPI_Comm_free(&host);
}

void MpiShared::await_finalize() {
  const auto stop = [](MPI_Comm, int, void* shared, void*) -> int {
    static_cast<MpiShared*>(shared)->stop();
    return MPI_SUCCESS;
  };
  check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, stop, &finalize_key_, nullptr), "MPI_Comm_create_keyval");
  check_mpi(MPI_Comm_set_attr(MPI_COMM_SELF, finalize_key_, this), "MPI_Comm_set_attr");
}

void MpiShared::await_failures() {
  if (std::ranges::all_of(host_of, [](int first) { return first == 0; })) return;
  check_mpi(MPI_Comm_dup(job, &failures_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(failures_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (world_rank != 0) return;
  check_mpi(MPI_Irecv(&failed_elsewhere_, 1, MPI_INT, MPI_ANY_SOURCE, 0, failures_, &failure_), "MPI_Irecv");
}

void MpiShared::tell_first_rank() const noexcept {
  using Clock = std::chrono::steady_clock;
  if (failures_ == MPI_COMM_NULL || host_of[static_cast<size_t>(world_rank)] == 0) return;
  if (has_mpi_failed.load()) return;  // what MPI still receives would go into memory that is no longer held
  const int failed = 1;
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_Issend(&failed, 1, MPI_INT, 0, 0, failures_, &request), is_told = 0;
  const Clock::time_point give_up = Clock::now() + std::chrono::seconds(1);
  while (code == MPI_SUCCESS && is_told == 0 && Clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    code = MPI_Test(&request, &is_told, MPI_STATUS_IGNORE);
  }
}

void MpiShared::share_table(MPI_Comm host) {
  const int host_rank = rank_in(host), host_size = ranks_in(host);
  const size_t bytes = mpi::PendingTable::bytes_for(host_size);
  CommMeeting meeting(host);
  void* memory = nullptr;
  std::optional<SharedFile> file;
  SharedFile::Address address;
  std::string why_none = host::failure_of_all(meeting, [&] {
    if (host_rank != 0) return;
    file = SharedFile::make(bytes);
    address = file->address();
    memory = file->map(bytes);
    mpi::PendingTable::at(memory, host_size).clear();
  });
  if (why_none.empty()) {
    check_mpi(MPI_Bcast(&address, sizeof(address), MPI_BYTE, 0, host), "MPI_Bcast");
    why_none = host::failure_of_all(meeting, [&] {
      if (host_rank != 0) memory = SharedFile::open(address, "the memory of local rank 0").map(bytes);
    });
  }
  if (!why_none.empty()) {
    if (memory) ::munmap(memory, bytes);
    if (host_rank == 0)
      say("adjoin: warning: deadlocks and missed deadlines will not be reported, since this host's processes share no "
          "memory: " +
          why_none);
    return;
  }
  memory_ = memory;
  table = mpi::PendingTable::at(memory, host_size);
  own_ = &table.processes[static_cast<size_t>(host_rank)];
  own_->pid.store(::getpid());
  own_->world_rank.store(world_rank);
  check_mpi(MPI_Barrier(host), "MPI_Barrier");  // until then no process may look as if it had returned
  latest.store(this);
  try {
    watchdog_ = mpi::watch(table, *own_, world_size, options.deadline,
                           [this](const std::string& report) { end_diagnosed(report); });
  } catch (const std::system_error& error) {
    throw CommunicationError(std::string("the watchdog's thread cannot be started: ") + error.what());
  }
}

void MpiShared::share_tensors(MPI_Comm host) {
  const int host_rank = rank_in(host), host_size = ranks_in(host);
  // Ranks may have been given different values: off on one rank counts for all ranks, otherwise on does.
  int words[] = {options.host_memory == HostMemory::off ? 1 : 0, options.host_memory == HostMemory::on ? 1 : 0};
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, words, 2, MPI_INT, MPI_MAX, host), "MPI_Allreduce");
  const auto [is_off, is_on] = words;
  CommMeeting meeting(host);
  const char* off = is_guest() ? "one of them gives 2" : "--host-memory or ADJOIN_HOST_MEMORY turns it off";
  const std::string why_none = is_off != 0 ? off : host::share_host_memory(meeting);
  note_host_memory({why_none.empty() ? host_size : 0, why_none});
  ranks_begin();
  if (why_none.empty()) {
    host_world = std::make_shared<mpi::ProcessWorld>(*this, *SharedMemory::current(), meeting);
    return;
  }
  if (is_on == 0 || host_size == 1) return;
  if (is_guest()) throw InvalidArgument("host_memory: the ranks of this host share no memory: " + why_none);
  if (host_rank == 0) end_job("--host-memory on: the ranks of this host share no memory: " + why_none, 2);
  check_mpi(MPI_Barrier(host), "MPI_Barrier");  // ends with the job
}

std::optional<int> MpiShared::leave(std::optional<int> exit_code) noexcept {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point give_up = Clock::now() + std::chrono::seconds(1);
  const bool may_wait = exit_code.value_or(0) == 0;
  int largest = exit_code.value_or(-1), all_are_here = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_Iallreduce(MPI_IN_PLACE, &largest, 1, MPI_INT, MPI_MAX, job, &request);
  if (code == MPI_SUCCESS && may_wait) code = MPI_Wait(&request, MPI_STATUS_IGNORE), all_are_here = 1;
  while (code == MPI_SUCCESS && all_are_here == 0) {
    if (Clock::now() > give_up) end_job("exits with code " + std::to_string(*exit_code), *exit_code);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    code = MPI_Test(&request, &all_are_here, MPI_STATUS_IGNORE);
  }
  try {
    check_mpi(code, "MPI_Iallreduce");
  } catch (const CommunicationError& error) {
    is_guest() ? end_diagnosed(error.what()) : end_job(error.what(), 1);
  }
  end();
  return largest < 0 ? std::nullopt : std::optional(largest);
}

void MpiShared::end() noexcept {
  if (finalize_key_ != MPI_KEYVAL_INVALID) {
    MPI_Comm_delete_attr(MPI_COMM_SELF, finalize_key_);
    MPI_Comm_free_keyval(&finalize_key_);
  }
  stop();
  if (job != MPI_COMM_WORLD && job != MPI_COMM_NULL) MPI_Comm_free(&job);
}

void MpiShared::stop() noexcept {
  watchdog_ = {};
  if (progress) progress->stop();
  if (failure_ != MPI_REQUEST_NULL) {
    MPI_Cancel(&failure_);
    MPI_Wait(&failure_, MPI_STATUS_IGNORE);
  }
  if (failures_ != MPI_COMM_NULL) MPI_Comm_free(&failures_);
  const MpiShared* self = this;
  latest.compare_exchange_strong(self, nullptr);
  own_ = nullptr;
}

bool MpiShared::others_failed() const noexcept {
  if (!own()) return false;
  if (*const_cast<const volatile int*>(&failed_elsewhere_) != 0) return true;
  return table.host->somebody_failed.load() || std::ranges::any_of(table.processes, [](const auto& process) {
           return ::kill(process.pid.load(), 0) != 0 && errno == ESRCH;
         });
}

bool mpi_job_fails() noexcept {
  const MpiShared* shared = latest.load();
  return shared && shared->others_failed();
}

void MpiShared::note_lack_of_room(const char* of, size_t most) const {
  if (!own()) return;
  own()->lacks_room.store(true);
  if (table.host->has_warned.exchange(true)) return;
  say("adjoin: warning: rank " + std::to_string(world_rank) + ": only " + std::to_string(most) + " " + of +
      " can be watched: a deadlock in which others wait for a rank with more is reported only at the deadline");
}

bool MpiShared::is_first_to_fail() const noexcept {
  return !own() || !table.host->somebody_failed.exchange(true);
}

void MpiShared::say(const std::string& message) const noexcept {
  if (options.tell) return options.tell(message);
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", message.c_str());
  std::fflush(stderr);
}

void MpiShared::end_job(const std::string& message, int exit_code, bool names_rank) const noexcept {
  end((names_rank ? "rank " + std::to_string(world_rank) + ": " : "") + printable(message), exit_code);
}

void MpiShared::end_diagnosed(const std::string& report) const noexcept {
  const bool spans_hosts = std::ranges::any_of(host_of, [this](int first) { return first != host_of.front(); });
  const bool is_returned = host_world && !spans_hosts;  // by calls that wait
  if (!is_guest() || (!is_returned && options.ends_job)) end(report, 1);
  if (!is_first_to_fail()) return;
  if (!is_returned && options.tell) options.tell(report);
  if (!own()) return;
  table.host->reason = report;
  table.host->has_ended.store(true);
}

namespace {

/// OpenMPI 4 sends "MPI_ABORT was invoked on rank 1" to its mpirun, two threads of which then read one message, which at times is
/// garbled. Our message has said more already.
void silence_banner_of_abort() noexcept {
  void* runtime = dlopen("libopen-rte.so.40", RTLD_LAZY | RTLD_NOLOAD);
  if (!runtime) return;
  if (auto* is_quiet = static_cast<bool*>(dlsym(runtime, "orte_execute_quiet"))) *is_quiet = true;
}

}  // namespace

void MpiShared::end(const std::string& text, int exit_code) const noexcept {
  if (is_first_to_fail()) {
    const std::string more = options.at_failure ? options.at_failure(text) : "";
    say("adjoin: " + text + (more.empty() ? "" : "\nadjoin: " + more));
  } else {
    std::this_thread::sleep_for(std::chrono::seconds(5));  // the first one's MPI_Abort ends this process
  }
  tell_first_rank();
  silence_banner_of_abort();
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
  const char* refusal =
      options.refusal.empty() ? "a communicator is given, but MPI is not initialised" : options.refusal.c_str();
  require(initialized || !options.communicator, refusal);
  if (!initialized) {
    send_at_once();
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
  }
  carried_state()();  // with what the thread of a rank begins
  finalizes_ = !initialized;
  if (finalizes_) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  shared_ = std::make_shared<MpiShared>(options);
  try {
    shared_->begin();
  } catch (...) {
    if (shared_->is_guest()) {
      shared_->end();
      throw;
    }
    shared_->end_job(message_of(std::current_exception()), exit_code_of(std::current_exception()));
  }
}

std::optional<int> MpiSession::leave(std::optional<int> exit_code) {
  const bool is_open = std::exchange(is_open_, false);
  return is_open && mpi_is_alive() ? shared_->leave(exit_code) : std::nullopt;
}

MpiSession::~MpiSession() {
  leave(std::nullopt);
  if (finalizes_ && mpi_is_alive()) MPI_Finalize();
}

std::shared_ptr<Backend> MpiSession::world() const {
  try {
    return mpi::backend_on(mpi::Group::of_world(shared_),
                           std::make_shared<mpi::Agent>(shared_, /*is_for_any_thread=*/false, /*is_ranks_own=*/true));
  } catch (...) {
    if (shared_->is_guest()) throw;
    shared_->end_job(message_of(std::current_exception()), exit_code_of(std::current_exception()));
  }
}

}  // namespace adjoin
