#include <ATen/core/Tensor.h>
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "adjoin/base/version.hpp"
#include "adjoin/c/call.hpp"
#include "adjoin/comm/contract/host_memory.hpp"
#include "adjoin/comm/launch.hpp"

namespace adjoin::c {
namespace {

/// LibTorch's products call functions by names that the program may have too: then they run in the program's library.
void tell_of_other_blas() {
  const void* found = dlsym(RTLD_DEFAULT, "dgemm_");
  Dl_info info;
  if (!found || dladdr(found, &info) == 0 || !info.dli_fname || std::strstr(info.dli_fname, "libtorch")) return;
  tell(std::string("adjoin: LibTorch's products run in the program's BLAS, ") + info.dli_fname);
}

/// What a world is made with, where it can be made.
adjoin_world_options checked(const adjoin_world_options* given, const adjoin_world* world) {
  check_place("world", world);
  check_has_no_world();
  adjoin_world_options options{};
  if (!given) return options;
  require(given->struct_size == sizeof(options), "options: struct_size: expected ", sizeof(options), ", got ",
          given->struct_size);
  options = *given;
  require(std::isfinite(options.deadline) && options.deadline >= 0 && options.deadline < 1e9,
          "options: deadline: expected seconds, or 0 for none");
  require(options.threads >= 0 && options.threads <= 4096, "options: threads: expected 0 to 4096");
  require(options.host_memory >= 0 && options.host_memory <= 2, "options: host_memory: expected 0, 1 or 2");
  return options;
}

MpiOptions mpi_options(int32_t comm, const adjoin_world_options& options) {
  MpiOptions mpi;
  mpi.communicator = comm;
  if (const char* ranks = std::getenv("ADJOIN_TEST_RANKS_OF_A_HOST")) mpi.ranks_of_a_host = std::atoi(ranks);
  mpi.deadline = std::chrono::milliseconds(std::llround(1000 * options.deadline) + 1);
  if (options.deadline == 0) mpi.deadline = std::chrono::milliseconds::max();
  mpi.checked = options.checked != 0;
  mpi.ends_job = options.ends_job != 0;
  mpi.tell = [](const std::string& message) { tell(message); };
  if (options.host_memory != 0) mpi.host_memory = options.host_memory == 1 ? HostMemory::on : HostMemory::off;
  return mpi;
}

adjoin_world begin(std::shared_ptr<World> world, Communicator group, int threads) {
  world->group = group.observed_by(world->counter);
  world->threads = threads > 0 ? threads : 1;
  set_latest_world(world);
  tell_of_other_blas();
  return Handles::all().add(std::move(world));
}

/// Frees what a handle stands for, with nothing alive on it. All ranks do so together; a pass each rank frees when it likes.
template <class What>
int destroy(adjoin_handle* handle, const char* function) noexcept {
  return guarded([&] {
    require(handle != nullptr, "expected a handle, got null");
    if (*handle == 0) return;
    try {
      if constexpr (std::is_same_v<What, Pass>)
        object<Pass>(*handle);
      else
        agreed<What>(function, *handle, [&](What&, Same&) {
          const int64_t uses =
              Handles::all().get<What>(*handle).use_count() - 3;  // by the handle, here, and by `agreed`
          require(uses == 0, Handles::name_of<What>(), " cannot be freed while ", uses, " of what was made on it live");
        });
    } catch (const CommunicationError&) {  // the world has ended for all ranks, which do not wait for each other
    }
    Handles::all().remove(*handle);
    *handle = 0;
  });
}

}  // namespace
}  // namespace adjoin::c

using namespace adjoin;
using namespace adjoin::c;

extern "C" {

uint32_t adjoin_version(void) {
  unsigned parts[3] = {};
  std::sscanf(kVersion, "%u.%u.%u", &parts[0], &parts[1], &parts[2]);
  return parts[0] << 16 | parts[1] << 8 | parts[2];
}

int adjoin_world_of_mpi_f(int32_t comm, const adjoin_world_options* options, adjoin_world* world) {
  return guarded([&] {
    adjoin_world_options given{};
    const std::optional<Failure> failure = failure_of([&] { given = checked(options, world); });
    MpiOptions of_rank = mpi_options(comm, given);
    of_rank.refusal = failure.value_or(Failure()).text;
    const auto made = std::make_shared<World>();
    made->session = std::make_unique<MpiSession>(of_rank);
    *world = begin(made, Communicator(made->session->world()), given.threads);
  });
}

int adjoin_world_alone(const adjoin_world_options* options, adjoin_world* world) {
  return guarded([&] {
    const adjoin_world_options given = checked(options, world);
    ranks_begin();
    *world = begin(std::make_shared<World>(), Communicator(), given.threads);
  });
}

int adjoin_run_threads(int32_t ranks, int (*rank)(adjoin_world world, void* user), void* user) {
  return guarded([&] {
    require(rank != nullptr && ranks >= 1 && ranks <= 1024, "expected 1 to 1024 ranks, and a function");
    check_has_no_world();
    launch_threads(ranks,
                   [&](const Communicator& group) {
                     const adjoin_world handle = begin(std::make_shared<World>(), group, 1);
                     const int result = rank(handle, user);
                     Handles::all().remove(handle);
                     if (result != 0) throw Error("its function returned " + std::to_string(result));
                   },
                   {.deadline = std::chrono::milliseconds::max()});
  });
}

int adjoin_world_split(adjoin_world world, int32_t color, int32_t key, adjoin_world* part) {
  const auto split = [&](const auto& of) {
    *part = 0;
    const std::optional<Communicator> group = of->group.split(color, key);
    if (!group) return;
    const auto made = std::make_shared<World>();
    made->whole = of;
    made->counter = of->counter;
    made->group = *group;
    made->threads = of->threads;
    *part = Handles::all().add(made);
  };
  return by_all<World>(
      "adjoin_world_split", world, [&](World&, Same&) { check_place("part", part); }, split);
}

int adjoin_world_rank(adjoin_world world, int32_t* rank, int32_t* size) {
  return guarded([&] {
    const auto of = object<World>(world);
    if (rank) *rank = of->group.rank();
    if (size) *size = of->group.size();
  });
}

int adjoin_world_counts(adjoin_world world, int64_t* messages, int64_t* bytes, int64_t* collectives,
                        int64_t* collective_bytes) {
  return guarded([&] {
    const Counter sent = std::exchange(*object<World>(world)->counter, {});
    if (messages) *messages = sent.messages;
    if (bytes) *bytes = sent.bytes;
    if (collectives) *collectives = sent.collectives;
    if (collective_bytes) *collective_bytes = sent.collective_bytes;
  });
}

int adjoin_world_destroy(adjoin_world* world) {
  return destroy<World>(world, "adjoin_world_destroy");
}

int adjoin_blocks_destroy(adjoin_blocks* blocks) {
  return destroy<c::Blocks>(blocks, "adjoin_blocks_destroy");
}

int adjoin_network_destroy(adjoin_network* network) {
  return destroy<c::Network>(network, "adjoin_network_destroy");
}

int adjoin_samples_destroy(adjoin_samples* samples) {
  return destroy<c::Samples>(samples, "adjoin_samples_destroy");
}

int adjoin_pass_destroy(adjoin_pass* pass) {
  return destroy<c::Pass>(pass, "adjoin_pass_destroy");
}

int adjoin_blocks_create(adjoin_world world, int32_t order, int32_t dims, const int64_t* shape, const int64_t* starts,
                         const int64_t* sizes, adjoin_blocks* blocks) {
  return adjoin_blocks_of_member(world, order, dims, shape, starts, sizes, 0, blocks);
}

int adjoin_blocks_of_member(adjoin_world world, int32_t order, int32_t dims, const int64_t* shape,
                            const int64_t* starts, const int64_t* sizes, int32_t member, adjoin_blocks* blocks) {
  const auto check = [&](World&, Same& same) {
    require(blocks != nullptr && shape != nullptr && starts != nullptr && sizes != nullptr,
            "expected a shape, starts, sizes and a place for the handle, got null");
    require(order == ADJOIN_ROWS_FIRST || order == ADJOIN_COLUMNS_FIRST, "order: expected 0 or 1, got ", order);
    require(dims >= 1 && dims <= 3, "dims: expected 1 to 3, got ", dims);
    same << order << dims;
  };
  const auto create = [&](const auto& of) {
    const auto list = [&](const int64_t* numbers) { return std::vector<int64_t>(numbers, numbers + dims); };
    const auto in = order == ADJOIN_COLUMNS_FIRST ? insitu::DimOrder::columns_first : insitu::DimOrder::rows_first;
    const insitu::Blocks made(of->group, in, list(shape), list(starts), list(sizes), member);
    *blocks = Handles::all().add(std::make_shared<c::Blocks>(of, made));
  };
  return by_all<World>("adjoin_blocks_create", world, check, create);
}

int adjoin_blocks_of_points(adjoin_world world, int64_t points, adjoin_blocks* blocks) {
  const auto create = [&](const auto& of) {
    *blocks = Handles::all().add(std::make_shared<c::Blocks>(of, insitu::Blocks::of_points(of->group, points)));
  };
  return by_all<World>(
      "adjoin_blocks_of_points", world, [&](World&, Same&) { check_place("blocks", blocks); }, create);
}

}  // extern "C"
