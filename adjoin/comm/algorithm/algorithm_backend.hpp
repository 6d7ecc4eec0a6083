#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "adjoin/comm/algorithm/catalogue.hpp"
#include "adjoin/comm/backend.hpp"

namespace adjoin {

/// A backend that carries one collective out by messages, by an algorithm of the catalogue, and leaves all else to the
/// backend that it stands before.
class AlgorithmBackend final : public Backend {
 public:
  /// Not of the catalogue, none of whose algorithms does so for every reduction: comm/algorithm/rank_order.
  static constexpr std::string_view kRankOrder = "rank_order";
  struct Choice {
    Collective collective = Collective::all_reduce;
    std::string_view algorithm = "auto";  // "auto" or algorithm::known_name's
    int64_t chunk = 0;                    // of a pipeline, in elements
  };
  AlgorithmBackend(std::shared_ptr<Backend> inner, const Choice& choice) : inner_(std::move(inner)), choice_(choice) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void exchange(std::span<const Message> messages) override { inner_->exchange(messages); }
  std::shared_ptr<Backend> subset(std::span<const int> ranks) override;
  void abort(std::string_view reason) noexcept override { inner_->abort(reason); }
  std::shared_ptr<Backend> for_thread(bool is_for_any_thread) override;
  void rest(bool rests) noexcept override { inner_->rest(rests); }
  bool abandon() noexcept override { return inner_->abandon(); }
  void fail(std::string_view reason) noexcept override { inner_->fail(reason); }
  bool is_checked() const override { return inner_->is_checked(); }
  bool reduces_in_rank_order() const override {
    return inner_->reduces_in_rank_order() && (!has_reduction(choice_.collective) || in_rank_order());
  }
  void begin_call(Operation& operation) override;
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
  bool takes(Collective collective) const { return collective == choice_.collective; }
  bool in_rank_order() const { return choice_.algorithm == kRankOrder; }
  algorithm::Request request(int root, int64_t count, std::span<const int64_t> counts = {}) const;

  std::shared_ptr<Backend> inner_;
  Choice choice_;
};

}  // namespace adjoin
