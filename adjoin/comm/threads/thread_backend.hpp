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
  void exchange(std::span<const Message> messages) override;
  std::shared_ptr<Backend> subset(std::span<const int> ranks) override;
  void abort(std::string_view reason) noexcept override;
  void begin_call(Operation& operation) override;
  std::shared_ptr<Backend> for_thread(bool is_for_any_thread) override;
  void rest(bool rests) noexcept override;
  bool abandon() noexcept override;
  void fail(std::string_view reason) noexcept override;
  bool is_checked() const override { return group_->world().is_checked(); }
  bool reduces_in_rank_order() const override { return true; }

  void barrier() override;
  void broadcast(Buffer buffer, int root) override;
  void reduce(ConstBuffer in, Buffer out, Reduction reduction, int root) override;
  void all_reduce(Buffer buffer, Reduction reduction) override;
  void gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root) override;
  void scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, int root) override;
  void all_gather(ConstBuffer in, Buffer out, std::span<const int64_t> counts) override;
  void reduce_scatter(ConstBuffer in, Buffer out, std::span<const int64_t> counts, Reduction reduction) override;
  void all_to_all(ConstBuffer in, std::span<const int64_t> send_counts, Buffer out,
                  std::span<const int64_t> receive_counts) override;

 private:
  /// Publishes the next collective and meets all; true where it is small and must not be finished.
  bool begin(threads::Call call, int64_t bytes_of_each, int64_t own_bytes);
  void finish();
  const threads::Call& call_of(int rank) const { return group_->call_of(rank, sequence_); }
  /// Where each rank's input and output is, `offset` bytes in.
  const std::vector<const void*>& inputs(int64_t offset);
  const std::vector<void*>& outputs(int64_t offset);

  /// Copies elements [first, first + count) of the outputs, which `from` has from `start` on, into every rank's output.
  void give_to_all(const void* from, int64_t start, int64_t first, int64_t count, ElementType type, Copy copy);

  void post(threads::Posting& mine);
  void wait_for(std::vector<threads::Posting>& postings, threads::Pending& pending);
  void copy_matched(std::vector<threads::Posting>& postings, threads::Pending& pending);

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
