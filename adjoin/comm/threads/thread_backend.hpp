#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <vector>

#include "adjoin/base/copying.hpp"
#include "adjoin/comm/backend.hpp"
#include "adjoin/comm/threads/group.hpp"

namespace adjoin {

/// One worker's view of a group of threads of this process.
///
/// Collectives work on each other's buffers in place, by blocks, without messages: ranks publish their calls, meet,
/// each does its share, and meet again. A small message travels with the published call and needs only the first
/// meeting. Reductions go in rank order, 16-bit floats in float32 rounded once, so results repeat bit for bit. Calls that
/// do not agree, and deadlocks, end the world at once: all ranks throw CommunicationError with every pending call.
class ThreadBackend final : public Backend {
 public:
  ThreadBackend(std::shared_ptr<threads::Group> group, std::shared_ptr<threads::Agent> agent, int rank);

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  void exchange(std::span<const Message> messages, const Call& call) override;
  std::unique_ptr<Sending> begin_send(const Message& message, const Call& call) override;
  std::shared_ptr<Backend> subset(std::span<const int> ranks, const Call& call) override;
  void abort(std::string_view reason) noexcept override;
  void carry_out(const Call& call) override;
  ThreadOwner* owner() override { return &agent_->owner(); }
  std::shared_ptr<Backend> for_thread(bool is_for_any_thread) override;
  void rest(bool rests) noexcept override;
  bool fail(std::exception_ptr cause) noexcept override;
  bool is_checked() const override { return group_->world().is_checked(); }
  bool reduces_in_rank_order() const override { return true; }

 private:
  class PostedSend;

  void barrier(const Call& call);
  void broadcast(const Call& call);
  void reduce(const Call& call);
  void all_reduce(const Call& call);
  void gather(const Call& call);
  void scatter(const Call& call);
  void all_gather(const Call& call);
  void reduce_scatter(const Call& call);
  void all_to_all(const Call& call);

  /// Publishes the collective and meets all; true where it is small and must not be finished.
  bool begin(const Call& call, int64_t bytes_of_each, int64_t own_bytes);
  const threads::Shown& call_of(int rank) const { return group_->call_of(rank, sequence_); }
  /// Where each rank's input and output is, `offset` bytes in.
  const std::vector<const void*>& inputs(int64_t offset);
  const std::vector<void*>& outputs(int64_t offset);

  /// Copies the blocks that travelled with the ranks' calls to their places in this rank's output.
  void collect(const Call& call) const;
  /// Copies elements [first, first + count) of the outputs, which `from` has from `start` on, into every rank's output.
  void give_to_all(const void* from, int64_t start, int64_t first, int64_t count, ElementType type, Copy copy);

  void post(threads::Posting& mine);
  void wait_for(std::span<threads::Posting> postings, threads::Pending& pending);
  void copy_matched(std::span<threads::Posting> postings, threads::Pending& pending);

  std::shared_ptr<threads::Group> group_;
  std::shared_ptr<threads::Agent> agent_;
  int rank_;
  uint64_t sequence_ = 0;  // of the latest collective
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

/// The backends of a new world, one for each of its ranks.
struct ThreadWorld {
  /// The arguments are those of threads::World.
  explicit ThreadWorld(int ranks, std::chrono::milliseconds deadline = std::chrono::minutes(5),
                       bool is_checked = false);
  std::shared_ptr<Backend> backend(int rank) const;
  /// Says that the thread of `rank` has returned and will never call again.
  void depart(int rank) const;

  std::shared_ptr<threads::World> world;
  std::shared_ptr<threads::Group> group;
  std::vector<std::shared_ptr<threads::Agent>> agents;
};

}  // namespace adjoin
