// Preloaded into the processes of an MPI job (LD_PRELOAD), counts on each rank what may fail on one rank alone: calls of MPI, and the
// system's for memory that processes share and for threads. Queries, and what only frees, are not counted.
//   ADJOIN_MPI_FAULT=RANK:N    the N-th of these fails on this rank, without having done anything; or all with this name
//   ADJOIN_MPI_FAULT_LOG=FILE  appends a line for each: the rank and the name
//
// OpenMPI has each function twice, MPI_X and PMPI_X, so that a tool can stand between.

#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

std::atomic<bool> is_in_job = false;  // from the end of MPI_Init_thread to the beginning of MPI_Finalize

/// Whether this call is to fail.
bool fails(const char* name) {
  static std::atomic<int> calls = 0;
  if (!is_in_job.load()) return false;
  const char *own = std::getenv("OMPI_COMM_WORLD_RANK"), *fault = std::getenv("ADJOIN_MPI_FAULT");
  const char* log = std::getenv("ADJOIN_MPI_FAULT_LOG");
  const int call = ++calls;
  if (log != nullptr) {
    const std::string line = std::string(own) + " " + name + "\n";
    const auto file = ::syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    ::syscall(SYS_write, file, line.data(), line.size());
    ::syscall(SYS_close, file);
  }
  const std::string lead = std::string(own) + ":";
  return fault != nullptr && (fault == lead + std::to_string(call) || fault == lead + name);
}

/// Whether the descriptor is that of shared memory.
bool is_shared(int descriptor) {
  char path[64] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  return ::readlink(link.c_str(), path, sizeof path - 1) > 0 && std::strncmp(path, "/memfd:adjoin", 13) == 0;
}

int failed(int error) {
  errno = error;
  return -1;
}

}  // namespace

extern "C" {

int MPI_Init_thread(int* arguments, char*** values, int wanted, int* got) {
  const int code = PMPI_Init_thread(arguments, values, wanted, got);
  is_in_job = true;
  return code;
}
int MPI_Finalize() {
  is_in_job = false;
  return PMPI_Finalize();
}

#define FAULTY(name, parameters, arguments)                             \
  int MPI_##name parameters {                                           \
    return fails("MPI_" #name) ? MPI_ERR_OTHER : PMPI_##name arguments; \
  }

FAULTY(Comm_split_type, (MPI_Comm c, int t, int k, MPI_Info i, MPI_Comm* n), (c, t, k, i, n))
FAULTY(Comm_split, (MPI_Comm c, int color, int key, MPI_Comm* n), (c, color, key, n))
FAULTY(Comm_dup, (MPI_Comm c, MPI_Comm* n), (c, n))
FAULTY(Comm_create_group, (MPI_Comm c, MPI_Group g, int t, MPI_Comm* n), (c, g, t, n))
FAULTY(Comm_set_errhandler, (MPI_Comm c, MPI_Errhandler h), (c, h))
FAULTY(Comm_group, (MPI_Comm c, MPI_Group* g), (c, g))
FAULTY(Group_incl, (MPI_Group g, int n, const int r[], MPI_Group* s), (g, n, r, s))
FAULTY(Barrier, (MPI_Comm c), (c))
FAULTY(Bcast, (void* b, int n, MPI_Datatype t, int r, MPI_Comm c), (b, n, t, r, c))
FAULTY(Reduce, (const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, int r, MPI_Comm c), (a, b, n, t, o, r, c))
FAULTY(Allreduce, (const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (a, b, n, t, o, c))
FAULTY(Iallreduce, (const void* a, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request* q),
       (a, b, n, t, o, c, q))
FAULTY(Iallgather, (const void* a, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c, MPI_Request* q),
       (a, n, t, b, m, u, c, q))
FAULTY(Allgather, (const void* a, int n, MPI_Datatype t, void* b, int m, MPI_Datatype u, MPI_Comm c),
       (a, n, t, b, m, u, c))
FAULTY(Allgatherv,
       (const void* a, int n, MPI_Datatype t, void* b, const int m[], const int d[], MPI_Datatype u, MPI_Comm c),
       (a, n, t, b, m, d, u, c))
FAULTY(Gatherv,
       (const void* a, int n, MPI_Datatype t, void* b, const int m[], const int d[], MPI_Datatype u, int r, MPI_Comm c),
       (a, n, t, b, m, d, u, r, c))
FAULTY(Scatterv,
       (const void* a, const int n[], const int d[], MPI_Datatype t, void* b, int m, MPI_Datatype u, int r, MPI_Comm c),
       (a, n, d, t, b, m, u, r, c))
FAULTY(Reduce_scatter, (const void* a, void* b, const int n[], MPI_Datatype t, MPI_Op o, MPI_Comm c),
       (a, b, n, t, o, c))
FAULTY(Isend, (const void* b, int n, MPI_Datatype t, int p, int g, MPI_Comm c, MPI_Request* q), (b, n, t, p, g, c, q))
FAULTY(Issend, (const void* b, int n, MPI_Datatype t, int p, int g, MPI_Comm c, MPI_Request* q), (b, n, t, p, g, c, q))
FAULTY(Irecv, (void* b, int n, MPI_Datatype t, int p, int g, MPI_Comm c, MPI_Request* q), (b, n, t, p, g, c, q))
FAULTY(Send, (const void* b, int n, MPI_Datatype t, int p, int g, MPI_Comm c), (b, n, t, p, g, c))
FAULTY(Recv, (void* b, int n, MPI_Datatype t, int p, int g, MPI_Comm c, MPI_Status* s), (b, n, t, p, g, c, s))
FAULTY(Wait, (MPI_Request * q, MPI_Status* s), (q, s))
FAULTY(Op_create, (MPI_User_function * f, int i, MPI_Op* o), (f, i, o))
FAULTY(Type_contiguous, (int n, MPI_Datatype t, MPI_Datatype* u), (n, t, u))
FAULTY(Type_create_hvector, (int n, int l, MPI_Aint s, MPI_Datatype t, MPI_Datatype* u), (n, l, s, t, u))
FAULTY(Type_commit, (MPI_Datatype * t), (t))

int memfd_create(const char* name, unsigned flags) noexcept {
  return fails("memfd_create") ? failed(EMFILE) : static_cast<int>(::syscall(SYS_memfd_create, name, flags));
}
int ftruncate(int file, off_t bytes) noexcept {
  return is_shared(file) && fails("ftruncate") ? failed(EFBIG)
                                               : static_cast<int>(::syscall(SYS_ftruncate, file, bytes));
}
void* mmap(void* place, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  if (file >= 0 && is_shared(file) && fails("mmap")) return errno = ENOMEM, MAP_FAILED;
  return reinterpret_cast<void*>(::syscall(SYS_mmap, place, bytes, protection, flags, file, offset));
}
int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const unsigned mode = flags & O_CREAT ? va_arg(arguments, unsigned) : 0;
  va_end(arguments);
  const bool is_peers = std::strncmp(path, "/proc/", 6) == 0 && std::strstr(path, "/fd/") != nullptr;
  return is_peers && fails("open") ? failed(EACCES)
                                   : static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  return fails("pthread_create") ? EAGAIN : create(thread, attributes, run, argument);
}

}  // extern "C"
