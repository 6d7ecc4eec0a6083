#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "adjoin/c/adjoin.h"
#include "adjoin/comm/mpi/mpi_backend.hpp"
#include "adjoin/insitu/pass.hpp"
#include "adjoin/insitu/samples.hpp"
#include "adjoin/insitu/training.hpp"

/// What the handles of adjoin.h stand for.
namespace adjoin::c {

/// Counts what a rank sends.
struct Counter final : Observer {
  void begin(const Call& call) override;
  int64_t messages = 0, bytes = 0, collectives = 0, collective_bytes = 0;
};

struct World : std::enable_shared_from_this<World> {
  std::shared_ptr<World> whole;         // of which it is a part; outlives it
  std::unique_ptr<MpiSession> session;  // of MPI's; outlives the group
  std::shared_ptr<Counter> counter = std::make_shared<Counter>();
  Communicator group;
  int threads = 1;
  std::thread::id thread = std::this_thread::get_id();
  World& home() { return *this; }
};
struct Blocks {
  std::shared_ptr<World> world;
  insitu::Blocks blocks;
  World& home() const { return *world; }
};
struct Network {
  std::shared_ptr<Blocks> blocks;
  std::shared_ptr<insitu::Network> net;
  std::optional<insitu::Training> training = {};
  int64_t passes = 0;  // that have trained, for dropout
  uint64_t seed = 0;
  World& home() const { return blocks->home(); }
};
struct Pass {
  std::shared_ptr<Network> network;
  insitu::Pass pass;
  World& home() const { return network->home(); }
};
struct Samples {
  std::shared_ptr<Network> network;
  insitu::Samples ring;
  World& home() const { return network->home(); }
};

/// Gives each object a number: the place where it is kept, and how often the place was used. So a number that was freed or never given is
/// found without touching memory.
class Handles {
 public:
  static Handles& all();

  using Any = std::variant<std::monostate, std::shared_ptr<World>, std::shared_ptr<Blocks>, std::shared_ptr<Network>,
                           std::shared_ptr<Pass>, std::shared_ptr<Samples>>;
  adjoin_handle add(Any what);
  /// Throws: InvalidArgument that begins with "expected a network"
  template <class What>
  std::shared_ptr<What> get(adjoin_handle handle) {
    const std::lock_guard lock(mutex_);
    const Any* any = find(handle);
    const auto* what = any ? std::get_if<std::shared_ptr<What>>(any) : nullptr;
    if (!what) refuse(name_of<What>(), handle, any);
    return *what;
  }
  template <class What>
  static const char* name_of() {
    return kNames[Any(std::shared_ptr<What>()).index()];
  }
  void remove(adjoin_handle handle);

 private:
  struct Place {
    Any what;
    uint32_t turn = 0;
  };
  Any* find(adjoin_handle handle);
  static constexpr const char* kNames[] = {"nothing", "a world", "blocks", "a network", "a pass", "samples"};
  [[noreturn]] static void refuse(const char* expected, adjoin_handle handle, const Any* found);

  std::mutex mutex_;
  std::vector<Place> places_;
};

}  // namespace adjoin::c
