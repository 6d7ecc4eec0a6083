#include "adjoin/comm/mpi/mpi_backend.hpp"

#include "adjoin/base/error.hpp"
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
  if (finalizes_) MPI_Finalize();
}

std::shared_ptr<Backend> MpiSession::world() const {
  return std::make_shared<mpi::Transport>(mpi::Group::of_world(shared_),
                                          std::make_shared<mpi::Agent>(shared_, /*is_for_any_thread=*/false));
}

}  // namespace adjoin
