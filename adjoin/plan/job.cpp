#include "adjoin/plan/job.hpp"

#include "adjoin/comm/launch.hpp"

namespace adjoin::plan {

int64_t hosts_of_job() {
  if (!started_by_mpi() || mpi_job_size() % mpi_job_ranks_here() != 0) return 1;
  return mpi_job_size() / mpi_job_ranks_here();
}

JobSession::JobSession() {
  if (started_by_mpi()) session_.emplace();
}

}  // namespace adjoin::plan
