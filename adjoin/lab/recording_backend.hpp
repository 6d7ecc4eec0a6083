#pragma once

#include <memory>

#include "adjoin/comm/backend.hpp"
#include "adjoin/lab/log.hpp"

namespace adjoin::lab {

/// Another backend whose exchanges are written to a log. Its collectives are those of the other backend, which sends
/// them as it likes: of them the log learns only that they were called.
class RecordingBackend final : public Backend {
 public:
  RecordingBackend(std::shared_ptr<Backend> inner, std::shared_ptr<Log> log, RecordedGroup group);

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void exchange(std::span<const Message> messages) override;
  std::shared_ptr<Backend> subset(std::span<const int> ranks) override;
  void abort(std::string_view reason) noexcept override { inner_->abort(reason); }
  std::shared_ptr<Backend> for_thread(bool is_for_any_thread) override;
  void rest(bool rests) noexcept override { inner_->rest(rests); }
  bool abandon() noexcept override { return inner_->abandon(); }
  void fail(std::string_view reason) noexcept override { inner_->fail(reason); }
  bool is_checked() const override { return inner_->is_checked(); }
  bool reduces_in_rank_order() const override { return inner_->reduces_in_rank_order(); }
  void begin_call(Operation& operation) override { inner_->begin_call(operation); }
  void end_call() override { inner_->end_call(); }

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
  int world_rank() const { return group_.members[static_cast<size_t>(rank())]; }
  template <class Call>
  void collective(const Call& call);

  const std::shared_ptr<Backend> inner_;
  const std::shared_ptr<Log> log_;
  const RecordedGroup group_;
};

}  // namespace adjoin::lab
