#include "adjoin/parallel/weight_shards.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/autocast_mode.hpp"
#include "adjoin/movement/marks.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/parallel/copies.hpp"
#include "adjoin/parallel/looked_up.hpp"
#include "adjoin/parallel/weight_gathers.hpp"
#include "adjoin/partition/shard.hpp"

namespace adjoin::parallel {
namespace {

bool is_cut(const nn::Parameter& parameter) {
  return !parameter.is_buffer && nn::ranks_of_copies(parameter).size() > 1;
}

nn::Parameter cut(nn::Parameter whole, Kept kept) {
  if (kept == Kept::tables) {  // the sums of its gradients are the same on all
    for (const std::string& axis : whole.layout.axes(Kind::copied))
      whole.layout = whole.layout.with_kind(axis, Kind::replicated);
    return whole;
  }
  whole.layout = sharded(whole.layout);
  whole.tensor = at::empty(whole.layout.shape_on(whole.grid.world().rank()), whole.tensor.options())
                     .requires_grad_(whole.tensor.requires_grad());
  return whole;
}

constexpr const char* kAdvice = "its segment runs: read and save the parameters() of the object that holds its shards";

}  // namespace

/// A table of which rows are fetched where they are looked up, as it is not used in any other way.
class WeightShards::Table final : public MarkedTensors, NotCopied {
 public:
  Table(const nn::Parameter& whole, const nn::Parameter& kept)
      : kept_(kept),
        is_whole_(kept.tensor.is_same(whole.tensor)),
        // Look-ups are not to wait for what was begun on the other group.
        rows_(whole, kept.tensor, own_group(nn::copies_of(whole)), is_whole_) {
    if (!whole.tensor.is_meta()) mark_.emplace(whole.tensor, *this, 0);
  }

  at::Tensor look_up(size_t, const at::Tensor&, const at::Tensor& ids, int64_t padding_idx) override {
    return rows_.look_up(ids, padding_idx);
  }
  void begin_read(size_t) override {
    require(is_whole_, [&] {
      return "'" + kept_.name +
             "' is a table whose rows are kept by different ranks, so that it can only be looked up; " +
             "where something else reads it, its part of the model is no table";
    });
  }
  void write(size_t, const std::string& operation) override {
    require(is_whole_, [&] {
      return "'" + kept_.name + "' is kept by different ranks, so " + operation +
             " cannot change it: change the pieces that the model gives";
    });
  }
  void sum_lanes(const HeldLanes& lanes) { rows_.sum_lanes(lanes); }
  void take_gradient() {
    if (!is_trained(kept_)) return;
    at::Tensor& gradient = kept_.tensor.mutable_grad();
    const at::Tensor sum = rows_.sum_gradients();
    gradient = gradient.defined() ? gradient.add_(sum) : sum;
  }

 private:
  const nn::Parameter kept_;
  const bool is_whole_;
  LookedUp rows_;
  std::optional<Mark> mark_;
};

nn::Parameter kept_of(nn::Parameter whole, Kept kept) {
  return is_cut(whole) ? cut(std::move(whole), kept) : whole;
}

WeightShards::~WeightShards() = default;

WeightShards::WeightShards(std::vector<nn::Parameter> whole, Kept kept) : parameters_(std::move(whole)) {
  const at::NoGradGuard no_gradient;
  for (nn::Parameter& parameter : parameters_) {
    at::Tensor tensor = parameter.tensor;
    const bool has_shards = is_cut(parameter);
    const bool owns_storage =
        !tensor.is_neg() && !tensor.is_conj() && tensor.is_contiguous() && tensor.storage().nbytes() == tensor.nbytes();
    if (has_shards && !owns_storage) tensor.set_data(tensor.clone(at::MemoryFormat::Contiguous));
    if (!parameter.initial && !tensor.is_meta()) broadcast_piece(parameter);
    if (!has_shards && !parameter.is_buffer && kept != Kept::shards) only_tables_.push_back(parameter);
    if (!has_shards) continue;
    const nn::Parameter uncut = parameter;
    parameter = cut(uncut, kept);
    const Bucket bucket({uncut}, {0});
    if (kept != Kept::tables) {
      parameter.tensor.view({-1}).copy_(bucket.mine(tensor.view({-1})));
      take_memory(tensor, kAdvice);
    }
    if (kept != Kept::shards) {
      tables_.push_back(std::make_unique<Table>(uncut, parameter));
      continue;
    }
    Weight& weight = weights_.emplace_back(Weight{uncut, parameter.tensor, bucket});
    if (is_trained(uncut))
      weight.gradient = std::make_unique<BucketSum>(std::vector{uncut}, bucket, BucketSum::When::each_time);
  }
}

void WeightShards::give_all_memory() {
  for (const Weight& weight : weights_) give_memory(weight.uncut.tensor);  // of all of them, even where a gather fails
}

bool WeightShards::Weight::narrows(Sent sent) const {
  return sent && c10::elementSize(*sent) == 2 && uncut.only_in_products && uncut.tensor.scalar_type() == at::kFloat &&
         bucket.copies().backend()->spans_hosts();
}

void WeightShards::Weight::pack(Sent sent) {
  mine = narrows(sent) ? shard.detach().to(*sent) : shard;
  all = narrows(sent) ? at::empty(uncut.tensor.sizes(), mine.options()) : uncut.tensor;
}

void WeightShards::Weight::unpack() {
  // By data that autograd does not count as changed: what it has kept is this tensor as it was.
  if (all.defined() && !all.is_same(uncut.tensor)) uncut.tensor.variable_data().copy_(all);
  mine = all = at::Tensor();
}

void WeightShards::gather(Sent sent) {
  const at::NoGradGuard no_gradient;
  const Now before = std::exchange(now_, Now::whole);
  if (before == Now::cut) give_all_memory();
  for (Weight& weight : weights_) {
    if (before == Now::cut) {
      weight.pack(sent);
      weight.bucket.copies().all_gather(buffer(weight.mine), buffer(weight.all), weight.bucket.sizes());
    } else if (weight.is_gathered_by) {
      std::exchange(weight.is_gathered_by, nullptr)->wait();
    }
    weight.unpack();
  }
}

void WeightShards::begin_gather(Sent sent) {
  if (now_ != Now::cut || bytes_ahead(sent) == 0) return;
  const at::NoGradGuard no_gradient;
  now_ = Now::begun;
  give_all_memory();
  for (Weight& weight : weights_) {
    weight.pack(sent);
    weight.is_gathered_by =
        weight.bucket.copies().begin().all_gather(buffer(weight.mine), buffer(weight.all), weight.bucket.sizes());
  }
}

int64_t WeightShards::bytes_ahead(Sent sent) const {
  const auto overlaps = [](const Weight& weight) { return weight.bucket.copies().backend()->overlaps(); };
  if (std::ranges::none_of(weights_, overlaps)) return 0;
  int64_t bytes = 0;
  for (const Weight& weight : weights_) {
    bytes += static_cast<int64_t>(weight.uncut.tensor.nbytes());
    if (weight.narrows(sent))
      bytes += (weight.uncut.tensor.numel() + weight.shard.numel()) * static_cast<int64_t>(c10::elementSize(*sent));
  }
  return bytes;
}

void WeightShards::release() {
  if (now_ == Now::cut) return;
  gather();  // where it was begun and nothing has used it
  now_ = Now::cut;
  for (const Weight& weight : weights_) take_memory(weight.uncut.tensor, kAdvice);
}

bool WeightShards::holds(const at::Tensor& tensor) const {
  return std::ranges::any_of(weights_, [&](const Weight& weight) { return weight.uncut.tensor.is_alias_of(tensor); });
}

void WeightShards::take_gradients() {
  const at::NoGradGuard no_gradient;
  for (const Weight& weight : weights_) {
    if (!weight.gradient || !weight.gradient->has()) continue;
    // Not a view of the sum: an optimizer's zero_grad could not detach the gradient of a view.
    const at::Tensor sum = at::_unsafe_view(weight.gradient->take(), weight.shard.sizes());
    at::Tensor& gradient = weight.shard.mutable_grad();
    gradient = gradient.defined() ? gradient.add_(sum) : sum;
  }
  for (const auto& table : tables_) table->take_gradient();
}

void WeightShards::sum_lanes(const HeldLanes& lanes, bool runs_once) {
  const auto when = runs_once ? BucketSum::When::each_time : BucketSum::When::asked;
  for (Weight& weight : weights_)
    if (weight.gradient) {
      weight.gradient.reset();  // with its hook
      weight.gradient = std::make_unique<BucketSum>(std::vector{weight.uncut}, weight.bucket, when, lanes);
    }
  // An only copy adds up rows too: else each lane would have a gradient of all rows.
  for (const nn::Parameter& table : only_tables_) tables_.push_back(std::make_unique<Table>(table, table));
  for (const auto& table : tables_) table->sum_lanes(lanes);
}

void WeightShards::leave_gradients() {
  for (Weight& weight : weights_) weight.gradient.reset();
}

at::Tensor ShardedSegments::run(size_t segment, const at::Tensor& x,
                                const std::function<at::Tensor(const at::Tensor&)>& forward, PlaceInStage place) const {
  const auto& mine = segments_[segment];
  if (mine.empty()) return forward(x);
  const auto edge_of = [](const at::Tensor& tensor) {
    return tensor.requires_grad() ? torch::autograd::impl::gradient_edge(tensor) : torch::autograd::Edge();
  };
  const torch::autograd::Edge before = edge_of(x);
  const WeightShards::Sent sent = type_of_products(x.device().type());
  for (const auto& part : mine) part->gather(sent);
  if (!place.is_last)
    for (const auto& part : segments_[segment + 1]) part->begin_gather(sent);
  at::Tensor y = forward(x);
  if (std::ranges::any_of(mine, [&](const auto& part) { return part->holds(y); })) y = y.clone();  // those are freed
  // A segment that returns its input has no backward, and its hook would release the weights of the previous segment.
  const bool has_backward = y.requires_grad() && !(edge_of(y) == before);
  if (!has_backward || !place.backward_follows)
    for (const auto& part : mine) part->release();
  if (has_backward)
    y.register_hook([this, &mine, segment, place, sent](const at::TensorBase&) {
      for (const auto& others : segments_)
        for (const auto& part : others)
          if (std::ranges::find(mine, part) == mine.end()) part->release();
      for (const auto& part : mine) part->gather(sent);
      if (!place.is_first)
        for (const auto& part : segments_[segment - 1]) part->begin_gather(sent);
    });
  return y;
}

void ShardedSegments::release() const {
  for (const auto& parts : segments_)
    for (const auto& part : parts) part->release();
}

int64_t WeightShards::gradient_bytes() const {
  int64_t bytes = 0;
  for (const Weight& weight : weights_)
    if (weight.gradient) bytes += weight.gradient->bytes();
  return bytes;
}

}  // namespace adjoin::parallel
