#include "adjoin/comm/mpi/shared.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/utf8.hpp"

namespace adjoin {

namespace {

template <ElementType T, Reduction R>
void reduce_for_mpi(void* in, void* in_out, int* count, MPI_Datatype*) {
  reduce_into({in_out, *count, T}, {in, *count, T}, R);
}

/// MPI's own operation, by the order of Reduction; of an average there is none, pairwise_of gives sum. On bool all is "or"
/// or "and".
MPI_Op builtin_of(ElementType type, Reduction reduction) {
  const MPI_Op on_numbers[kReductions] = {MPI_SUM, MPI_PROD, MPI_MIN,  MPI_MAX, MPI_OP_NULL, MPI_BAND,
                                          MPI_BOR, MPI_BXOR, MPI_LAND, MPI_LOR, MPI_LXOR};
  const MPI_Op on_bool[kReductions] = {MPI_LOR, MPI_LAND, MPI_LAND, MPI_LOR, MPI_OP_NULL, MPI_LAND,
                                       MPI_LOR, MPI_LXOR, MPI_LAND, MPI_LOR, MPI_LXOR};
  return (type == ElementType::boolean ? on_bool : on_numbers)[static_cast<size_t>(reduction)];
}

bool is_half(ElementType type) {
  return type == ElementType::float16 || type == ElementType::bfloat16;
}

/// Whether MPI's own operation means the same as ours: its MIN and MAX may lose a NaN, it knows no 16-bit floats, and its
/// sums of bytes saturate where they are vectorised.
bool has_builtin(ElementType type, Reduction reduction) {
  const bool is_float = type == ElementType::float32 || type == ElementType::float64;
  const bool is_order = reduction == Reduction::min || reduction == Reduction::max;
  const bool may_saturate =
      type == ElementType::uint8 && (reduction == Reduction::sum || reduction == Reduction::product);
  return !is_half(type) && !(is_float && is_order) && !may_saturate;
}

/// Whether MPI is ever asked for it.
bool is_wanted(ElementType type, Reduction reduction) {
  return is_defined(reduction, type) && pairwise_of(reduction) == reduction;
}

template <ElementType T, Reduction R>
MPI_Op make_operation() {
  if (!is_wanted(T, R)) return MPI_OP_NULL;
  if (has_builtin(T, R)) return builtin_of(T, R);
  MPI_Op operation = MPI_OP_NULL;
  check_mpi(MPI_Op_create(reduce_for_mpi<T, R>, 1, &operation), "MPI_Op_create");
  return operation;
}

template <ElementType T, int... R>
std::array<MPI_Op, kReductions> make_operations(std::integer_sequence<int, R...>) {
  return {make_operation<T, static_cast<Reduction>(R)>()...};
}

template <int... T>
std::array<std::array<MPI_Op, kReductions>, kElementTypes> make_all_operations(std::integer_sequence<int, T...>) {
  return {make_operations<static_cast<ElementType>(T)>(std::make_integer_sequence<int, kReductions>())...};
}

}  // namespace

void check_mpi(int code, const char* call) {
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

MPI_Datatype mpi_type(ElementType type) {
  const MPI_Datatype types[kElementTypes] = {MPI_C_BOOL,   MPI_UINT8_T,  MPI_INT32_T, MPI_INT64_T,
                                             MPI_UINT16_T, MPI_UINT16_T, MPI_FLOAT,   MPI_DOUBLE};
  return types[static_cast<size_t>(type)];
}

MpiShared::MpiShared(const MpiOptions& given)
    : options(given), operations_(make_all_operations(std::make_integer_sequence<int, kElementTypes>())) {
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  share_memory();
}

void MpiShared::share_memory() {
  MPI_Comm host;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
  int host_rank = 0, host_size = 1;
  MPI_Comm_rank(host, &host_rank);
  MPI_Comm_size(host, &host_size);
  void* memory = nullptr;
  const size_t bytes = host_rank == 0 ? mpi::PendingTable::bytes_for(host_size) : 0;
  MPI_Comm_set_errhandler(host, MPI_ERRORS_RETURN);
  if (MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, host, &memory, &window_) != MPI_SUCCESS) {
    window_ = MPI_WIN_NULL;
    if (host_rank == 0)
      say("adjoin: warning: MPI shares no memory between the processes of this host, so that nobody can tell of "
          "deadlocks or the deadline");
    MPI_Comm_free(&host);
    return;
  }
  MPI_Aint size = 0;
  int unit = 0;
  MPI_Win_shared_query(window_, 0, &size, &unit, &memory);
  table = mpi::PendingTable::at(memory, host_size);
  if (host_rank == 0) table.clear();
  MPI_Barrier(host);
  own = &table.entries[static_cast<size_t>(host_rank)];
  own->pid.store(::getpid());
  own->world_rank.store(world_rank);
  MPI_Barrier(host);  // nobody looks like one that has returned
  MPI_Comm_free(&host);
  if (host_rank != 0) return;
  watchdog_ = std::make_unique<mpi::Watchdog>(table, world_size, options.deadline, [this](const std::string& report) {
    if (!is_first_to_fail()) return;  // the job ends already
    say("adjoin: " + report);
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::_Exit(1);
  });
}

void MpiShared::leave() noexcept {
  MPI_Barrier(MPI_COMM_WORLD);
  watchdog_.reset();
}

MpiShared::~MpiShared() {
  release();
}

void MpiShared::release() noexcept {
  if (is_released_ || !mpi_is_alive()) return;
  is_released_ = true;
  for (int t = 0; t < kElementTypes; ++t)
    for (int r = 0; r < kReductions; ++r) {
      const auto type = static_cast<ElementType>(t);
      const auto reduction = static_cast<Reduction>(r);
      if (is_wanted(type, reduction) && !has_builtin(type, reduction))
        MPI_Op_free(&operations_[static_cast<size_t>(t)][static_cast<size_t>(r)]);
    }
  own = nullptr;
  if (window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
}

MPI_Op MpiShared::operation(ElementType type, Reduction reduction) const {
  return operations_[static_cast<size_t>(type)][static_cast<size_t>(pairwise_of(reduction))];
}

bool MpiShared::is_first_to_fail() const noexcept {
  return !own || table.header->somebody_failed.exchange(1) == 0;
}

void MpiShared::say(const std::string& message) const noexcept {
  std::fflush(stdout);
  std::fprintf(stderr, "%s\n", message.c_str());
  std::fflush(stderr);
}

void MpiShared::end_job(const std::string& message, int exit_code) const noexcept {
  if (is_first_to_fail())
    say("adjoin: rank " + std::to_string(world_rank) + ": " + printable(message));
  else
    std::this_thread::sleep_for(std::chrono::seconds(5));  // the first one's MPI_Abort ends us
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace adjoin
