#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/base/process_owner.hpp"
#include "python/c10d/elements.hpp"
#include "python/c10d/hosts.hpp"
#include "python/c10d/member.hpp"
#include "python/c10d/work.hpp"

namespace adjoin::c10d_backend {

using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

/// A collective of c10d as it runs: what carries it out, and what names it in reports.
struct Turn {
  Backend& backend;
  const GroupIdentity& identity;
  Where where;
  uint64_t sequence;

  /// A call for `tensor`'s type.
  Call call(Collective collective, ConstBuffer in, Buffer out, at::ScalarType type) const;
};

/// What torch.distributed calls: the ranks of a group, which work on each other's tensors where they are on one host.
///
/// A collective that its caller waits for is carried out in the caller's thread, others in the thread of the group's queue, in the
/// order in which they were called. Messages do not pass through the queue: they are posted at once.
class ProcessGroup final : public c10d::Backend {
 public:
  struct Options final : c10d::Backend::Options {
    explicit Options(std::chrono::milliseconds timeout) : c10d::Backend::Options("adjoin", timeout) {}
  };

  /// `world_ranks`: of the group's ranks among `world_size`. Called on all ranks of the group.
  /// Throws: DistBackendError where they share no memory, on all ranks the same
  ProcessGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, std::vector<int> world_ranks, int world_size,
               std::chrono::milliseconds timeout);
  ~ProcessGroup() override;

  const std::string getBackendName() const override { return "adjoin"; }
  /// A copy: torch gives it a part's timeout and hands it to split().
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override {
    return c10::make_intrusive<Options>(*options_);
  }
  c10::intrusive_ptr<Options> options() const { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void abort() override;
  void shutdown() override;
  c10d::ErrorType getError() override;
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& options) override;

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outs, Tensors& ins, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& out, at::Tensor& in, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outs, Tensors& ins, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outs, Tensors& ins, const c10d::AllgatherOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outs, Tensors& ins, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outs, std::vector<Tensors>& ins, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outs, std::vector<Tensors>& ins, const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& out, at::Tensor& in, const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outs, Tensors& ins,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& out, at::Tensor& in, std::vector<int64_t>& out_splits,
                        std::vector<int64_t>& in_splits, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outs, Tensors& ins, const c10d::AllToAllOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool waits_for_all) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

 private:
  /// Carries out `body(turn)`, or queues it.
  template <class CallOptions, class Body>
  WorkPtr run(c10d::OpType op, const char* title, const Tensors& ins, Tensors outs, const CallOptions& options,
              Body body);
  WorkPtr message(c10d::OpType op, const char* title, const Tensors& tensors, int peer, int tag);
  void check_usable() const;
  void meet(host::Meeting& meeting, const c10::intrusive_ptr<c10d::Store>& store, int world_size,
            std::chrono::milliseconds timeout);

  const c10::intrusive_ptr<Options> options_;
  const ProcessOwner process_;
  GroupIdentity identity_;
  std::shared_ptr<host::Group> group_;  // of this rank's host; nullptr after shutdown
  std::shared_ptr<Member> member_;      // of that group, for the collectives
  std::shared_ptr<Hosts> hosts_;        // nullptr where all ranks are on one host
  adjoin::Backend* backend_ = nullptr;  // the one of both that carries collectives out
  std::atomic<uint64_t> sequence_ = 0;
  std::shared_ptr<Queue> queue_;
};

}  // namespace adjoin::c10d_backend
