#include "adjoin/parallel/looked_up.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/take.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/saved_value.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/nn/fixed/column_sums.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

/// Rows added up by their places, in order: [ids, columns] -> [count, columns].
at::Tensor added_by_place(const at::Tensor& rows, const at::Tensor& places, int64_t count, int64_t padding = -1) {
  return at::embedding_dense_backward(rows, places.to(rows.device()), count, padding, /*scale_grad_by_freq=*/false);
}

}  // namespace

/// Some rows of a table: sorted, distinct ids [n] and their numbers [n, columns]; undefined where there are none.
struct LookedUp::MovedRows {
  at::Tensor ids, rows;

  MovedRows& add(const MovedRows& more) {
    if (!ids.defined()) return *this = more;
    if (!more.ids.defined()) return *this;
    const auto [all, places, counts] = at::_unique2(at::cat({ids, more.ids}), /*sorted=*/true, /*return_inverse=*/true);
    rows = added_by_place(at::cat({rows, more.rows}), places, all.numel());
    ids = all;
    return *this;
  }
  /// Adds the gradients `of` look-ups in some ranges, one after another in float32.
  void add_look_ups(const at::Tensor& of, const at::Tensor& looked_up, std::span<const Range> ranges) {
    std::vector<at::Tensor> all{ids.defined() ? ids : looked_up.narrow(0, 0, 0)};
    for (const Range& range : ranges) all.push_back(looked_up.narrow(0, range.begin, range.size()));
    const at::Tensor wanted = std::get<0>(at::_unique2(at::cat(all)));
    const at::Tensor sums = at::zeros({wanted.numel(), of.size(1)}, of.options().dtype(at::kFloat));
    if (ids.defined()) sums.index_copy_(0, at::searchsorted(wanted, ids), rows);
    nn::fixed::add_rows(sums, at::searchsorted(wanted, looked_up), of, ranges);
    ids = wanted;
    rows = sums;
  }
};

/// What backward has left: the gradients of rows, in a FixedOrder lane by lane.
struct LookedUp::RowGradients {
  MovedRows all;
  std::optional<GrowingSums<MovedRows>> lanes;

  static MovedRows sum(MovedRows rows, const MovedRows& more) { return rows.add(more); }
  void add_lanes(const FixedOrder& order, const at::Tensor& of, const at::Tensor& looked_up) {
    if (!lanes) lanes.emplace(SumTree{order.numbers.all_lanes()}, sum);
    order.for_each_lane(of.size(0), [&](int64_t row, int64_t lane, std::span<const Range> ranges) {
      lanes->of(row, lane, [] { return MovedRows(); }).add_look_ups(of, looked_up, ranges);
    });
  }
};

/// Puts the vectors of ids together from distinct rows. The table is its input for autograd, which therefore calls the hooks of its
/// gradient.
struct LookedUp::Vectors : torch::autograd::Function<Vectors> {
  struct Saved {
    at::Tensor distinct, places;  // the ids are distinct[places]
    int64_t table_rows, padding_idx;
    std::shared_ptr<RowGradients> gradients;
    std::shared_ptr<const FixedOrder> order;
  };

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor&, const at::Tensor& rows, const Saved& saved) {
    ctx->saved_data["saved"] = saved_value(saved);
    return at::embedding(rows, saved.places.to(rows.device()));
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const auto& [distinct, places, table_rows, padding_idx, found, order] = value_of<Saved>(ctx->saved_data["saved"]);
    const at::Tensor& of = gradients[0];
    const auto* const asked_for = torch::autograd::get_current_graph_task_exec_info();
    if (asked_for != nullptr && !asked_for->empty())  // by torch::autograd::grad
      return {added_by_place(of, at::take(distinct, places), table_rows, padding_idx), {}, {}};
    require(!at::GradMode::is_enabled(), "a look-up of sharded rows: double backward is not supported");
    if (order) {
      found->add_lanes(*order, of, at::take(distinct, places));
      return {{}, {}, {}};
    }
    const auto begin = distinct.const_data_ptr<int64_t>(), end = begin + distinct.numel();
    const auto padding = std::find(begin, end, padding_idx);
    found->all.add({distinct, added_by_place(of, places, distinct.numel(), padding == end ? -1 : padding - begin)});
    return {{}, {}, {}};
  }
};

/// What the ranks ask of each other.
struct LookedUp::Asked {
  std::vector<int64_t> of_owners, of_me;  // how many ids of this rank by owner, and of each rank
  at::Tensor ids;                         // within this rank's shard, rank by rank
};

LookedUp::LookedUp(nn::Parameter table, at::Tensor shard, Communicator copies, bool has_all_rows)
    : table_(std::move(table)),
      shard_(std::move(shard)),
      copies_(std::move(copies)),
      has_all_rows_(has_all_rows || copies_.size() == 1),
      gradients_(std::make_shared<RowGradients>()) {
  require(can_serve(table_),
          [&] { return "LookedUp: expected a matrix of floating-point numbers, got '" + table_.name + "'"; });
}

bool LookedUp::can_serve(const nn::Parameter& parameter) {
  return parameter.tensor.dim() == 2 && parameter.tensor.is_floating_point();
}

bool LookedUp::serves(const at::Tensor& tensor) const {
  namespace impl = torch::autograd::impl;
  if (!tensor.is_same(table_.tensor)) return false;
  return !tensor.requires_grad() || (impl::hooks(tensor).empty() && !impl::post_acc_grad_hooks(tensor));
}

at::Tensor LookedUp::look_up(const at::Tensor& ids, int64_t padding_idx) {
  return look_up(ids, padding_idx, [this](const at::Tensor& distinct) { return rows(distinct); });
}

at::Tensor LookedUp::look_up(const at::Tensor& ids, int64_t padding_idx, const Fetch& fetch) {
  require(ids.scalar_type() == at::kLong || ids.scalar_type() == at::kInt, [&] {
    return "'" + table_.name + "': expected ids of type int64 or int32, got " + c10::toString(ids.scalar_type());
  });
  // The host asks other ranks for rows, so it needs the ids.
  const auto [distinct, places, counts] =
      at::_unique2(ids.cpu().to(at::kLong), /*sorted=*/true, /*return_inverse=*/true);
  const int64_t table_rows = table_.tensor.size(0);
  if (distinct.numel() > 0) {
    const auto least = distinct[0].item<int64_t>(), most = distinct[-1].item<int64_t>();
    require(least >= 0 && most < table_rows, [&, bad = least < 0 ? least : most] {
      return "'" + table_.name + "': expected ids from 0 to " + std::to_string(table_rows - 1) + ", got " +
             std::to_string(bad);
    });
  }
  const at::Tensor fetched = fetch(distinct);
  const auto order = lanes_ ? FixedOrder::current() : nullptr;
  return Vectors::apply(table_.tensor, fetched,
                        Vectors::Saved{distinct, places, table_rows, padding_idx, gradients_, order});
}

/// By ids that are sorted, of which each row of the table has `each`.
LookedUp::Asked LookedUp::asked_of_owners(const at::Tensor& ids, int64_t each) const {
  const int ranks = copies_.size();
  const auto owned = [&](int rank) { return balanced_range(table_.tensor.size(0), ranks, rank); };
  const int64_t *from = ids.const_data_ptr<int64_t>(), *const end = from + ids.numel();
  Asked asked;
  for (int owner = 0; owner < ranks; ++owner) {
    const auto* const to = std::lower_bound(from, end, each * owned(owner).end);
    asked.of_owners.push_back(to - std::exchange(from, to));
  }
  asked.of_me.resize(static_cast<size_t>(ranks));
  const std::vector<int64_t> one(static_cast<size_t>(ranks), 1);
  copies_.all_to_all(const_buffer(asked.of_owners), one, buffer(asked.of_me), one);
  asked.ids = at::empty({std::reduce(asked.of_me.begin(), asked.of_me.end())}, at::kLong);
  copies_.all_to_all(buffer(ids), asked.of_owners, buffer(asked.ids), asked.of_me);
  asked.ids.sub_(each * owned(copies_.rank()).begin);
  return asked;
}

/// Rows in the order of the ranks to which they go -> rows in the order of those from which they come.
at::Tensor LookedUp::exchanged(const at::Tensor& rows, const std::vector<int64_t>& to,
                               const std::vector<int64_t>& from) const {
  const int64_t columns = rows.size(1);
  const auto elements = [&](std::vector<int64_t> counts) {
    for (int64_t& count : counts) count *= columns;
    return counts;
  };
  at::Tensor received = at::empty({std::reduce(from.begin(), from.end()), columns}, rows.options());
  copies_.all_to_all(buffer(rows), elements(to), buffer(received), elements(from));
  return received;
}

/// The rows of all ranks, one rank's after another's.
LookedUp::MovedRows LookedUp::gathered(const MovedRows& mine) const {
  const int64_t here = mine.ids.numel(), columns = shard_.size(1);
  std::vector<int64_t> counts(static_cast<size_t>(copies_.size()));
  copies_.all_gather(const_buffer(here), buffer(counts), std::vector<int64_t>(counts.size(), 1));
  std::vector<int64_t> elements;
  for (const int64_t of_rank : counts) elements.push_back(of_rank * columns);
  const int64_t count = std::reduce(counts.begin(), counts.end());
  const at::Tensor ids = at::empty({count}, mine.ids.options()),
                   rows = at::empty({count, columns}, mine.rows.options());
  copies_.all_gather(buffer(mine.ids), buffer(ids), counts);
  copies_.all_gather(buffer(mine.rows), buffer(rows), elements);
  return {ids, rows};
}

/// Of lanes each rank has the rows of its nodes of a tree, in one list: row `id` of the i-th of all ranks' `nodes` has the number
/// id * nodes + i there, so that an owner's rows follow one another.
LookedUp::MovedRows LookedUp::in_one_list(RowGradients& mine, std::vector<Range>& nodes) const {
  Range here;
  const auto of_ranks = lanes_->of_copies(nn::ranks_of_copies(table_), /*is_of_experts=*/false);
  for (int rank = 0; rank < copies_.size(); ++rank) {
    const std::vector<Range> some = lanes_->tree.nodes_of(of_ranks[static_cast<size_t>(rank)]);
    if (rank == copies_.rank()) here = {std::ssize(nodes), std::ssize(nodes) + std::ssize(some)};
    nodes.insert(nodes.end(), some.begin(), some.end());
  }
  std::vector<at::Tensor> ids, rows;
  for (int64_t i = here.begin; i < here.end && mine.lanes; ++i)
    if (const auto list = mine.lanes->take(nodes[static_cast<size_t>(i)]); list && list->ids.defined()) {
      ids.push_back(list->ids * std::ssize(nodes) + i);
      rows.push_back(list->rows);
    }
  if (ids.size() <= 1) return ids.empty() ? MovedRows() : MovedRows{ids[0], rows[0]};
  const auto [sorted, order] = at::cat(ids).sort();
  return {sorted, at::cat(rows).index_select(0, order)};
}

/// The sum of the rows of all nodes; undefined where there are none.
LookedUp::MovedRows LookedUp::sum_of(const MovedRows& all, const std::vector<Range>& nodes) const {
  const auto count = std::ssize(nodes);
  if (count == 1) return all;
  const at::Tensor ids = all.ids.floor_divide(count), node_of = all.ids.remainder(count);
  SumArrivals<MovedRows> sums(lanes_->tree, RowGradients::sum);
  for (int64_t i = 0; i < count; ++i) {
    const at::Tensor places = node_of.eq(i).nonzero().view(-1);
    sums.add(nodes[static_cast<size_t>(i)], {ids.index_select(0, places), all.rows.index_select(0, places)});
  }
  return sums.take({0, lanes_->tree.parts}).value_or(MovedRows());
}

at::Tensor LookedUp::rows(const at::Tensor& ids) const {
  const at::NoGradGuard no_gradient;
  const auto rows_here = [&](const at::Tensor& of) { return at::index_select(shard_, 0, of.to(shard_.device())); };
  if (has_all_rows_) return rows_here(ids);
  const Asked asked = asked_of_owners(ids);
  return exchanged(rows_here(asked.ids), asked.of_me, asked.of_owners);
}

bool LookedUp::has_gradients() const {
  return gradients_->all.ids.defined() || gradients_->lanes;
}

at::Tensor LookedUp::sum_gradients(double scale, std::optional<at::ScalarType> wire) {
  const at::NoGradGuard no_gradient;
  const at::ScalarType type = shard_.scalar_type();
  const bool is_cast = copies_.size() > 1 && wire && (type == at::kFloat || type == at::kDouble);
  const at::ScalarType sent = is_cast ? *wire : type;
  RowGradients mine = std::exchange(*gradients_, {});
  std::vector<Range> nodes;
  MovedRows all = lanes_ ? in_one_list(mine, nodes) : mine.all;
  if (!all.ids.defined()) all = {at::empty({0}, at::kLong), at::empty({0, shard_.size(1)}, shard_.options())};
  if (scale != 1) all.rows.mul_(scale);
  if (copies_.size() > 1) {
    all.rows = all.rows.to(sent);
    if (has_all_rows_) {
      all = gathered(all);
    } else {
      const Asked asked = asked_of_owners(all.ids, std::max<int64_t>(1, std::ssize(nodes)));
      all = {asked.ids, exchanged(all.rows, asked.of_owners, asked.of_me)};
    }
  }
  if (lanes_) all = sum_of(all, nodes);
  // 16-bit numbers are added in float32 and rounded once, as by a collective.
  const at::ScalarType added = sent == at::kDouble ? at::kDouble : at::kFloat;
  const auto& [ids, rows] = all;
  if (!ids.defined()) return at::zeros(shard_.sizes(), shard_.options());
  return added_by_place(rows.to(added), ids, shard_.size(0)).to(sent).to(type);
}

void LookedUp::forget_gradients() {
  *gradients_ = {};
}

}  // namespace adjoin::parallel
