#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/comm/host/by_parts.hpp"
#include "python/c10d/member.hpp"

namespace adjoin::c10d_backend {

using Gloo = c10::intrusive_ptr<c10d::Backend>;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

/// Makes a group of gloo; its class is known to Python only.
using MakeGloo = std::function<Gloo(const StorePtr& store, int rank, int size, std::chrono::milliseconds timeout)>;
MakeGloo& make_gloo();

/// For each rank that meets, the first of those on its host. Called on all.
/// The environment variable ADJOIN_TEST_RANKS_OF_A_HOST lets each host look as if it had that many ranks, for tests.
std::vector<int> first_ranks_of_hosts(host::Meeting& meeting, const std::vector<int>& world_ranks);

/// Sends and receives between hosts, by gloo. What has begun ends only with a connection, so a rank that fails closes its own.
class Network {
 public:
  Network(Gloo gloo, const Member& member) : gloo_(std::move(gloo)), member_(member) {}

  c10d::Backend& gloo() const { return *gloo_; }
  using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;
  Works post(std::span<const Message> messages) const;
  /// Throws: what gloo throws, also where the member's timeout is over
  void wait(const Works& works) const;
  /// All that wait for this rank get an error.
  void close() const noexcept;

 private:
  const Gloo gloo_;
  const Member& member_;
};

/// A rank of a group over several hosts. The ranks of a host, its part, work on each other's memory, and the first of each part
/// speak for it over the network: what goes to all ranks of a host crosses the network once.
///
/// Calls are compared first, within the part and then between the parts. An error ends the group on each host: its reason is
/// kept in the store, and connections are closed.
class Hosts final : public Backend {
 public:
  /// Called on all ranks of the group.
  Hosts(std::shared_ptr<Member> part, const std::vector<int>& first_ranks, std::vector<int> world_ranks, StorePtr store,
        int rank, std::chrono::milliseconds timeout);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(world_ranks_.size()); }
  void exchange(std::span<const Message> messages, const Call& call) override;
  void run_collective(const Call& call) override;
  std::shared_ptr<Backend> subset(std::span<const int>, const Call&) override { return nullptr; }
  void abort(std::string_view reason) noexcept override { end(std::string(reason)); }

  /// A send or a receive of a user, by gloo between any ranks, as only one of both could take one from any rank.
  c10::intrusive_ptr<c10d::Work> message(c10d::OpType op, const at::Tensor& tensor, int peer, int tag);

 private:
  class Leaders;

  void carry_out(const Call& call);
  void check_counts(const Call& call);
  /// Ends the group on all hosts, with this reason or with that of a rank that has ended it before.
  void end(const std::string& reason) noexcept;

  const std::shared_ptr<Member> part_;
  const host::Parts parts_;
  const std::vector<int> world_ranks_;
  const StorePtr store_;
  const int rank_;
  const Network all_;
  std::shared_ptr<Leaders> leaders_;  // nullptr where this rank is not the first of its part
  std::optional<host::ByParts> by_parts_;
};

}  // namespace adjoin::c10d_backend
