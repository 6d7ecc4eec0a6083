#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/movement/marks.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/parallel/bucket.hpp"
#include "adjoin/parallel/looked_up.hpp"

namespace adjoin::parallel {

/// Allocates memory for a whole tensor, which has its own storage.
void give_memory(const at::Tensor& whole);
/// Frees it; the tensor keeps its sizes. Where something reads it then, LibTorch throws an error that ends with `advice`: when there
/// are values.
void take_memory(const at::Tensor& whole, const std::string& advice);

/// Weights of which each rank of a group keeps its shard (adjoin::sharded), and which are whole while an operation reads them, forward
/// or backward. They are gathered in units; at most two units are whole, or those that one operation reads. A table that is a unit
/// of its own need not be whole where an embedding looks up rows of it: only the rows move.
///
/// What is gathered and looked up are events, each of which has a number.
class WeightGathers : public MarkedTensors, NotCopied {
 public:
  /// From now on `weights`, which have memory of their own, have none but while they are read. `units` are the indices of those that
  /// are gathered together. `want` is called where an operation reads a unit that is not whole, or looks rows up: it calls
  /// carry_out or serve, until the event was carried out for this rank. `group`: of all weights' copies; without it each unit is
  /// gathered over its own copies, whose ranks read it in one order, and no rows move.
  WeightGathers(std::vector<nn::Parameter> weights, const std::vector<std::vector<size_t>>& units,
                std::optional<Communicator> group, std::string who, std::function<void(int64_t event)> want);
  ~WeightGathers() override;

  /// This rank's shards, with the layouts of shards.
  const std::vector<nn::Parameter>& shards() const { return shards_; }
  /// The number of events: first the gathers of all units, then the look-ups in all weights.
  int64_t events() const { return std::ssize(units_) + std::ssize(weights_); }
  /// Appends those of a unit, in the order in which they may come.
  void append_events(size_t unit, std::vector<int64_t>& events) const;
  /// The table of a weight whose rows move, otherwise nullptr.
  LookedUp* table(size_t weight) const { return tables_[weight].get(); }

  /// A collective, whose result this rank gets where `is_wanted`: a unit that becomes whole, or rows.
  void carry_out(int64_t event, bool is_wanted);
  /// A collective: each rank gets what it wants, the event of_ranks[rank], unless that is negative.
  void serve(const std::vector<int64_t>& of_ranks);
  /// Frees the memory of all whole units that no operation reads.
  void release();
  /// Whether what is whole stays so between operations outside of backward. If not, it is freed at once too.
  void keep(bool keeps);
  /// Frees the memory of a weight's unit, unless an operation reads it.
  void release(size_t weight);
  /// Keeps a weight whole until the next `release`. Throws: InvalidArgument for a tensor that is none of the weights
  void hold(const at::Tensor& weight);
  /// A collective: all weights are whole, and may be written to, while `work` runs; what it wrote to this rank's shards stays.
  /// Throws: InvalidArgument, with its name, for a weight that `work` gave another size or type
  void while_whole(const std::function<void()>& work);
  /// Tells LibTorch that the values have changed, so that a backward through what was computed with earlier ones is refused.
  void note_update() const;

  void begin_read(size_t weight) override;
  void end_read(size_t weight) noexcept override;
  void write(size_t weight, const std::string& operation) override;
  at::Tensor look_up(size_t weight, const at::Tensor& table, const at::Tensor& ids, int64_t padding_idx) override;

 private:
  struct Unit {
    std::vector<size_t> members;
    Bucket bucket;
    at::Tensor shards{};  // of all members, flat
    bool is_whole = false;
    int readers = 0;
    int64_t last_read = 0;
  };

  /// Learns of writes to shards: what is whole is then out of date.
  class ChangedShards : public MarkedTensors {
   public:
    explicit ChangedShards(WeightGathers& gathers) : gathers_(gathers) {}
    void write(size_t unit, const std::string&) override { gathers_.shards_changed(unit); }

   private:
    WeightGathers& gathers_;
  };

  void mark();
  void gather(Unit& unit, bool is_wanted);
  void serve_units(const std::vector<int64_t>& of_ranks);
  void take_what_was_written();
  void shards_changed(size_t unit);
  void free_if_unread(Unit& unit);
  void make_room(const Unit& wanted);
  at::Tensor room_for(const Unit& unit, bool is_wanted) const;
  void become_whole(Unit& unit, const at::Tensor& packed);
  void free(Unit& unit);
  std::vector<at::Tensor> reals_of_members(const Unit& unit) const;

  std::vector<nn::Parameter> weights_, reals_, shards_;
  std::vector<Unit> units_;
  std::vector<size_t> unit_of_;                    // of each weight
  std::vector<std::unique_ptr<LookedUp>> tables_;  // of each weight; none where rows do not move
  at::Tensor ids_, rows_;                          // of the look-up that this rank wants
  ChangedShards changed_shards_{*this};
  std::vector<std::unique_ptr<Mark>> marks_, marks_of_shards_;
  std::vector<const void*> memory_;  // of each weight
  std::vector<size_t> held_;         // weights that a user reads
  std::optional<Communicator> group_;
  std::string who_, advice_;
  std::function<void(int64_t)> want_;
  std::thread::id thread_ = std::this_thread::get_id();
  int64_t reads_ = 0;
  bool keeps_ = true;
};

}  // namespace adjoin::parallel
