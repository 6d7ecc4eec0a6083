#pragma once

#include <cstdint>
#include <optional>

#include "adjoin/comm/algorithm/catalogue.hpp"
#include "adjoin/comm/mpi/mpi_backend.hpp"

namespace adjoin::plan {

/// Where the ranks of a job run.
struct JobHosts {
  int64_t ranks = 1, hosts = 1;                 ///< the same number of ranks on each host, which are neighbours
  std::optional<algorithm::Network> network{};  ///< between hosts, by formula; none: as measured

  int64_t ranks_a_host() const { return ranks / hosts; }
};

/// The hosts of the job that this process belongs to, if each has the same number of its ranks; otherwise, or without a job, 1.
int64_t hosts_of_job();

/// Keeps MPI initialised while a job makes plans, checks them and trains; does nothing outside of a job. All processes of the
/// job make and destroy it together.
class JobSession {
 public:
  JobSession();

 private:
  std::optional<MpiSession> session_;
};

}  // namespace adjoin::plan
