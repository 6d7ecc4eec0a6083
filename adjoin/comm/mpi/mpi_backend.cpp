#include "adjoin/comm/mpi/mpi_backend.hpp"

#include <numeric>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/mpi/shared.hpp"
#include "adjoin/comm/mpi/transport.hpp"

namespace adjoin {

MpiSession::MpiSession(const MpiOptions& options) {
  int initialized = 0, level = 0;
  MPI_Initialized(&initialized);
  require(!initialized || mpi_is_alive(),
          "MPI was finalised, by an earlier launch or by the program, and cannot be initialised again in this process: "
          "initialise it before the first launch to launch several times");
  if (!initialized) check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
  finalizes_ = !initialized;
  shared_ = std::make_shared<MpiShared>(options);
}

MpiSession::~MpiSession() {
  if (!mpi_is_alive()) return;
  shared_->leave();
  shared_->release();
  if (finalizes_) MPI_Finalize();
}

std::shared_ptr<Backend> MpiSession::world() const {
  MPI_Comm comm;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  std::vector<int> all(static_cast<size_t>(shared_->world_size));
  std::iota(all.begin(), all.end(), 0);
  return std::make_shared<mpi::Transport>(std::make_shared<mpi::Group>(shared_, comm, /*id=*/1, std::move(all)),
                                          std::make_shared<mpi::Agent>(shared_, /*is_for_any_thread=*/false));
}

}  // namespace adjoin
