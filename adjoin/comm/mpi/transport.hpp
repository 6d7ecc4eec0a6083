#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "adjoin/comm/contract/backend.hpp"
#include "adjoin/comm/mpi/in_job.hpp"
#include "adjoin/comm/mpi/posted.hpp"

namespace adjoin::mpi {

class ProcessBackend;

/// MPI as a backend, for one thread of this process on one group.
class Transport final : public InJob<Backend> {
 public:
  Transport(std::shared_ptr<Group> group, std::shared_ptr<Agent> agent);
  ~Transport() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void exchange(std::span<const Message> messages, const Call& call) override;
  /// Messages, and collectives of a group whose ranks are all on different hosts by a program of the catalogue.
  std::unique_ptr<Pending> begin(const Call& call) override;
  void run_collective(const Call& call) override;
  bool overlaps() const override { return one_a_host_; }

 private:
  // Messages.
  void carry(std::span<const Message> messages, const Call& call);
  class Begun;

  // MPI's own collectives; collectives.cpp.
  /// Whether MPI's counts can hold the blocks of all ranks together.
  bool is_countable(const Call& call) const;
  void call_mpi(const Call& call);
  void call_in_pieces(const Call& call);
  void call_with_blocks(const Call& call);
  void reduce_scatter(const Call& call, bool is_in_place);
  void all_gather_of_two(const Call& call);
  void all_to_all(const Call& call);

  const MPI_Comm comm_;
  const MpiOptions& options_;
  const int rank_, size_;
  const bool one_a_host_;  // each rank is on another host
  // For a group over several hosts: the ranks that share memory with this one, and the leaders where it is one.
  std::unique_ptr<ProcessBackend> part_;
  std::unique_ptr<Transport> leaders_;
  Channel channel_;
  // Kept for the next call, so that none allocates.
  Posted posted_;
  std::vector<int> sizes_, starts_;  // of the ranks' blocks
  std::vector<Message> messages_;    // of an all_to_all
  std::vector<char> block_;          // of a reduce_scatter in place
};

}  // namespace adjoin::mpi
