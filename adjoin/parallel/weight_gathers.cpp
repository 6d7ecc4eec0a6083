#include "adjoin/parallel/weight_gathers.hpp"

#include <ATen/DeviceGuard.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/partition/shard.hpp"

namespace adjoin::parallel {
namespace {

constexpr int64_t kMostWhole = 2;

/// What to say when memory that is not there is read; null where it is. LibTorch 2.11 cannot take it back: there such a read ends
/// the process.
template <class Storage>
void say_when_read(Storage& storage, std::optional<std::string> message) {
  if constexpr (requires { storage.clear_data_ptr_access_error_msg_(); }) {
    storage.clear_data_ptr_access_error_msg_();
    if (message) storage.release_data_and_set_meta_custom_data_ptr_error_msg_(std::move(message));
  }
}

}  // namespace

void give_memory(const at::Tensor& whole) {
  if (whole.is_meta()) return;
  c10::StorageImpl* storage = whole.storage().unsafeGetStorageImpl();
  say_when_read(*storage, std::nullopt);
  const c10::DeviceGuard guard(storage->device());
  storage->set_data_ptr(storage->allocator()->allocate(whole.nbytes()));
}

void take_memory(const at::Tensor& whole, const std::string& advice) {
  if (whole.is_meta()) return;
  c10::StorageImpl* storage = whole.storage().unsafeGetStorageImpl();
  say_when_read(*storage, std::nullopt);
  at::DataPtr memory = storage->set_data_ptr(at::DataPtr(nullptr, storage->device()));
  if (!storage->resizable()) {  // an array of numpy reads it, for as long as it likes
    new at::DataPtr(std::move(memory));
    storage->set_resizable(true);
  }
  say_when_read(*storage, "this weight is sharded over the ranks and has values only while " + advice);
  storage->set_nbytes(whole.nbytes());  // views of it check whether they fit
}

WeightGathers::WeightGathers(std::vector<nn::Parameter> weights, const std::vector<std::vector<size_t>>& units,
                             std::optional<Communicator> group, std::string who, std::function<void(int64_t)> want)
    : weights_(std::move(weights)),
      shards_(weights_),
      unit_of_(weights_.size()),
      group_(std::move(group)),
      who_(std::move(who)),
      advice_("an operation of LibTorch reads it: pass it to " + who_ +
              "::use before its memory is read in another way, and save or read " + who_ + "::parameters()"),
      want_(std::move(want)) {
  const at::NoGradGuard no_gradient;
  for (const nn::Parameter& weight : weights_) reals_.push_back(reals_of(weight));
  for (const std::vector<size_t>& members : units) {
    for (const size_t i : members) unit_of_[i] = units_.size();
    Unit& unit = units_.emplace_back(members, Bucket(reals_, members));
    std::vector<at::Tensor> whole = reals_of_members(unit), flat(weights_.size());
    unit.shards = unit.bucket.mine(unit.bucket.pack(whole)).clone();
    unit.bucket.take_shards(unit.shards, flat);
    for (const size_t i : members) {
      nn::Parameter& shard = shards_[i];
      shard.layout = sharded(shard.layout);
      const std::vector<int64_t> shape = shard.layout.shape_on(shard.grid.world().rank());
      const at::Tensor& whole_of = weights_[i].tensor;
      shard.tensor = of_reals(flat[i], shape, whole_of.is_complex()).detach().requires_grad_(whole_of.requires_grad());
      take_memory(whole_of, advice_);
      marks_of_shards_.push_back(std::make_unique<Mark>(shard.tensor, changed_shards_, units_.size() - 1));
    }
  }
  for (size_t i = 0; i < weights_.size(); ++i)
    tables_.push_back(group_ && LookedUp::can_serve(weights_[i]) && units_[unit_of_[i]].members.size() == 1
                          ? std::make_unique<LookedUp>(weights_[i], shards_[i].tensor, *group_)
                          : nullptr);
  mark();
}

WeightGathers::~WeightGathers() = default;

void WeightGathers::mark() {
  memory_.clear();
  for (size_t i = 0; i < weights_.size(); ++i) {
    marks_.push_back(std::make_unique<Mark>(weights_[i].tensor, *this, i));
    memory_.push_back(weights_[i].tensor.storage().unsafeGetStorageImpl());
  }
}

std::vector<at::Tensor> WeightGathers::reals_of_members(const Unit& unit) const {
  std::vector<at::Tensor> tensors(weights_.size());
  for (const size_t i : unit.members) tensors[i] = reals_[i].tensor.detach();
  return tensors;
}

void WeightGathers::begin_read(size_t weight) {
  Unit& unit = units_[unit_of_[weight]];
  if (std::this_thread::get_id() != thread_) {  // on which an operation of the rank's thread has work done
    require(unit.is_whole, [&] {
      return who_ + ": '" + weights_[weight].name +
             "' is sharded over the ranks and is read by another thread than the one that made " + who_;
    });
    return;
  }
  if (!unit.is_whole) want_(static_cast<int64_t>(unit_of_[weight]));
  unit.last_read = ++reads_;
  ++unit.readers;
}

void WeightGathers::end_read(size_t weight) noexcept {
  if (std::this_thread::get_id() != thread_) return;
  Unit& unit = units_[unit_of_[weight]];
  if (--unit.readers == 0 && !keeps_ && torch::autograd::get_current_graph_task_id() < 0) free(unit);
}

void WeightGathers::write(size_t weight, const std::string& operation) {
  throw InvalidArgument(who_ + ": '" + weights_[weight].name + "' is sharded over the ranks, so " + operation +
                        " cannot change it on this rank: change it in " + who_ + "::while_whole");
}

void WeightGathers::free(Unit& unit) {
  for (const size_t i : unit.members) take_memory(weights_[i].tensor, advice_);
  unit.is_whole = false;
}

void WeightGathers::free_if_unread(Unit& unit) {
  if (unit.is_whole && unit.readers == 0) free(unit);
}

/// Frees the units that were read longest ago.
void WeightGathers::make_room(const Unit& wanted) {
  for (;;) {
    Unit* oldest = nullptr;
    int64_t whole = 0;
    for (Unit& unit : units_) {
      if (!unit.is_whole || &unit == &wanted) continue;
      ++whole;
      if (unit.readers == 0 && (oldest == nullptr || unit.last_read < oldest->last_read)) oldest = &unit;
    }
    if (whole < kMostWhole || oldest == nullptr) return;
    free(*oldest);
  }
}

/// Room for the shards of all ranks; where one weight is wanted, its own memory.
at::Tensor WeightGathers::room_for(const Unit& unit, bool is_wanted) const {
  if (is_wanted && unit.members.size() == 1) {
    give_memory(weights_[unit.members[0]].tensor);
    return reals_[unit.members[0]].tensor.detach().view({-1});
  }
  const std::vector<int64_t>& sizes = unit.bucket.sizes();
  return at::empty({std::reduce(sizes.begin(), sizes.end())}, unit.shards.options());
}

void WeightGathers::become_whole(Unit& unit, const at::Tensor& packed) {
  unit.is_whole = true;
  if (unit.members.size() == 1) return;
  for (const size_t i : unit.members) give_memory(weights_[i].tensor);
  unit.bucket.unpack(packed, reals_of_members(unit));
}

at::Tensor WeightGathers::look_up(size_t weight, const at::Tensor& table, const at::Tensor& ids, int64_t padding_idx) {
  LookedUp* const rows = tables_[weight].get();
  if (rows == nullptr || !rows->serves(table) || std::this_thread::get_id() != thread_) return {};
  return rows->look_up(ids, padding_idx, [&](const at::Tensor& distinct) {
    if (units_[unit_of_[weight]].is_whole) {
      const Unseen unseen;
      return at::index_select(table.detach(), 0, distinct.to(table.device()));
    }
    ids_ = distinct;
    want_(std::ssize(units_) + static_cast<int64_t>(weight));
    return std::exchange(rows_, {});
  });
}

void WeightGathers::append_events(size_t unit, std::vector<int64_t>& events) const {
  const size_t first = units_[unit].members[0];
  if (tables_[first]) events.push_back(std::ssize(units_) + static_cast<int64_t>(first));
  events.push_back(static_cast<int64_t>(unit));
}

void WeightGathers::carry_out(int64_t event, bool is_wanted) {
  const int64_t weight = event - std::ssize(units_);
  if (weight < 0) return gather(units_[static_cast<size_t>(event)], is_wanted);
  const Unseen unseen;
  at::Tensor rows = tables_[static_cast<size_t>(weight)]->rows(is_wanted ? ids_ : at::empty({0}, at::kLong));
  if (is_wanted) rows_ = std::move(rows);
}

void WeightGathers::serve(const std::vector<int64_t>& of_ranks) {
  std::vector<int64_t> units = of_ranks;
  std::set<int64_t> look_ups;
  for (int64_t& event : units)
    if (event >= std::ssize(units_)) look_ups.insert(std::exchange(event, -1));
  for (const int64_t event : look_ups) carry_out(event, of_ranks[static_cast<size_t>(group_->rank())] == event);
  serve_units(units);
}

void WeightGathers::gather(Unit& unit, bool is_wanted) {
  const at::NoGradGuard no_gradient;
  const Unseen unseen;
  is_wanted = is_wanted && !unit.is_whole;
  if (is_wanted) make_room(unit);
  const at::Tensor packed = room_for(unit, is_wanted);
  const Communicator& group = group_ ? *group_ : unit.bucket.copies();
  group.all_gather(buffer(unit.shards), buffer(packed), unit.bucket.sizes());
  if (is_wanted) become_whole(unit, packed);
}

void WeightGathers::serve_units(const std::vector<int64_t>& of_ranks) {
  const at::NoGradGuard no_gradient;
  const Unseen unseen;
  const int me = group_->rank();
  const auto unit_for = [&](int rank) {
    const int64_t unit = of_ranks[static_cast<size_t>(rank)];
    return unit < 0 ? nullptr : &units_[static_cast<size_t>(unit)];
  };
  std::vector<Message> messages;
  for (int rank = 0; rank < group_->size(); ++rank)
    if (const Unit* unit = unit_for(rank); unit != nullptr && rank != me)
      messages.push_back(send_of(buffer(unit->shards), rank, /*tag=*/0));
  Unit* const wanted = unit_for(me);
  at::Tensor packed;
  if (wanted != nullptr) {
    make_room(*wanted);
    packed = room_for(*wanted, /*is_wanted=*/true);
    {
      const at::AutoDispatchBelowADInplaceOrView no_change;  // of the weight, for autograd
      wanted->bucket.mine(packed).copy_(wanted->shards);
    }
    int64_t before = 0;
    for (int rank = 0; rank < group_->size(); ++rank) {
      const int64_t size = wanted->bucket.sizes()[static_cast<size_t>(rank)];
      if (rank != me) messages.push_back(receive_of(buffer(packed).slice(before, size), rank, /*tag=*/0));
      before += size;
    }
  }
  group_->exchange(messages);
  if (wanted != nullptr) become_whole(*wanted, packed);
}

void WeightGathers::release() {
  for (const size_t weight : std::exchange(held_, {})) end_read(weight);
  for (Unit& unit : units_) free_if_unread(unit);
}

void WeightGathers::keep(bool keeps) {
  if (std::exchange(keeps_, keeps) && !keeps) release();
}

void WeightGathers::release(size_t weight) {
  free_if_unread(units_[unit_of_[weight]]);
}

void WeightGathers::hold(const at::Tensor& weight) {
  const auto memory_of = [](const at::Tensor& tensor) { return tensor.storage().unsafeGetStorageImpl(); };
  const auto at =
      std::ranges::find_if(weights_, [&](const auto& known) { return memory_of(known.tensor) == memory_of(weight); });
  require(at != weights_.end(),
          [&] { return who_ + "::use: expected one of the module's weights, got another tensor"; });
  const auto i = static_cast<size_t>(at - weights_.begin());
  begin_read(i);
  held_.push_back(i);
}

void WeightGathers::shards_changed(size_t unit) {
  if (std::this_thread::get_id() == thread_) free_if_unread(units_[unit]);
  for (const size_t i : units_[unit].members) weights_[i].tensor.unsafeGetTensorImpl()->bump_version();
}

void WeightGathers::while_whole(const std::function<void()>& work) {
  for (Unit& unit : units_) {
    ++unit.readers;
    gather(unit, /*is_wanted=*/true);
  }
  marks_.clear();
  try {
    work();
  } catch (...) {
    take_what_was_written();
    throw;
  }
  take_what_was_written();
}

void WeightGathers::take_what_was_written() {
  const at::NoGradGuard no_gradient;
  for (size_t i = 0; i < weights_.size(); ++i) {
    at::Tensor tensor = weights_[i].tensor;
    require(
        tensor.sizes() == weights_[i].layout.shape() && tensor.scalar_type() == shards_[i].tensor.scalar_type(), [&] {
          return who_ + "::while_whole: '" + weights_[i].name + "' has another size or type now: make a new " + who_;
        });
    if (tensor.storage().unsafeGetStorageImpl() == memory_[i]) continue;
    tensor.set_data(tensor.clone(at::MemoryFormat::Contiguous));  // something else may have what it was given
    memory_[i] = tensor.storage().unsafeGetStorageImpl();
    reals_[i] = reals_of(weights_[i]);
  }
  for (Unit& unit : units_) {
    unit.shards.copy_(unit.bucket.mine(unit.bucket.pack(reals_of_members(unit))));
    --unit.readers;
  }
  mark();
  release();
}

void WeightGathers::note_update() const {
  for (const nn::Parameter& weight : weights_) weight.tensor.unsafeGetTensorImpl()->bump_version();
}

}  // namespace adjoin::parallel
