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
#include <map>
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

/// The sums of consecutive runs of numbers, of these lengths.
std::vector<int64_t> totals(const std::vector<int64_t>& numbers, const std::vector<int64_t>& lengths) {
  std::vector<int64_t> totals;
  for (auto first = numbers.begin(); const int64_t length : lengths) {
    totals.push_back(std::reduce(first, first + length));
    first += length;
  }
  return totals;
}

}  // namespace

/// Some rows of a table: sorted, distinct ids [n] and their numbers [n, columns]; undefined where there are none.
struct LookedUp::Rows {
  at::Tensor ids, rows;

  /// None, of a table like this.
  static Rows none_of(const at::Tensor& table) {
    return {at::empty({0}, at::kLong), at::empty({0, table.size(1)}, table.options())};
  }
  /// One list after another, of a table like this.
  static Rows joined(const std::vector<Rows>& lists, const at::Tensor& table) {
    if (lists.size() <= 1) return lists.empty() ? none_of(table) : lists[0];
    std::vector<at::Tensor> ids, rows;
    for (const Rows& list : lists) {
      ids.push_back(list.ids);
      rows.push_back(list.rows);
    }
    return {at::cat(ids), at::cat(rows)};
  }

  Rows& add(const Rows& more) {
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

/// Lists of rows, one after another, and how many each has.
struct LookedUp::Lists {
  Rows all;
  std::vector<int64_t> counts;

  /// The sum of a tree's nodes, of each of which there is a list; undefined where there are none.
  Rows sum(SumTree tree, const std::vector<std::vector<Range>>& nodes) const {
    std::map<Range, Rows> by_node;
    int64_t before = 0;
    for (auto count = counts.begin(); const auto& of_rank : nodes)
      for (const Range& node : of_rank) {
        by_node.emplace(node, Rows{all.ids.narrow(0, before, *count), all.rows.narrow(0, before, *count)});
        before += *count++;
      }
    const auto there = [&](Range node) {
      const auto found = by_node.find(node);
      return found == by_node.end() ? std::nullopt : std::optional(found->second);
    };
    const auto add = [](Rows rows, const Rows& more) { return rows.add(more); };
    return sum_of_node<Rows>({0, tree.parts}, there, add).value_or(Rows());
  }
};

/// What backward has left: the gradients of rows, in a FixedOrder lane by lane.
struct LookedUp::RowGradients {
  Rows all;
  std::optional<GrowingSums<Rows>> lanes;

  static Rows sum(Rows rows, const Rows& more) { return rows.add(more); }
  void add_lanes(const FixedOrder& order, const at::Tensor& of, const at::Tensor& looked_up) {
    if (!lanes) lanes.emplace(SumTree{order.numbers.all_lanes()});
    const auto none = [] { return Rows(); };
    order.for_each_lane(of.size(0), [&](int64_t row, int64_t lane, std::span<const Range> ranges) {
      lanes->of(row, lane, none, sum).add_look_ups(of, looked_up, ranges);
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

/// What the ranks ask of each other in lists of ids.
struct LookedUp::Asked {
  std::vector<int64_t> of_owners, of_me;       // how many ids of this rank by owner, and of each rank
  std::vector<int64_t> in_my_lists, in_lists;  // by owner and list, and by rank and list
  at::Tensor ids;                              // within this rank's shard, by rank and list
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

/// `of_ranks`: how many lists each rank has.
LookedUp::Asked LookedUp::asked_of_owners(const std::vector<at::Tensor>& lists,
                                          const std::vector<int64_t>& of_ranks) const {
  const int ranks = copies_.size();
  Asked asked;
  std::vector<at::Tensor> sent;
  for (int owner = 0; owner < ranks; ++owner) {
    const Range owned = balanced_range(table_.tensor.size(0), ranks, owner);
    asked.of_owners.push_back(0);
    for (const at::Tensor& ids : lists) {
      const int64_t *const begin = ids.const_data_ptr<int64_t>(), *const end = begin + ids.numel();
      const auto from = std::lower_bound(begin, end, owned.begin), to = std::lower_bound(from, end, owned.end);
      sent.push_back(ids.narrow(0, from - begin, to - from));
      asked.in_my_lists.push_back(to - from);
      asked.of_owners.back() += to - from;
    }
  }
  asked.in_lists.resize(static_cast<size_t>(std::reduce(of_ranks.begin(), of_ranks.end())));
  copies_.all_to_all(const_buffer(asked.in_my_lists), std::vector(static_cast<size_t>(ranks), std::ssize(lists)),
                     buffer(asked.in_lists), of_ranks);
  asked.of_me = totals(asked.in_lists, of_ranks);
  const at::Tensor ids = lists.size() == 1 ? lists[0] : sent.empty() ? at::empty({0}, at::kLong) : at::cat(sent);
  asked.ids = at::empty({std::reduce(asked.of_me.begin(), asked.of_me.end())}, at::kLong);
  copies_.all_to_all(buffer(ids), asked.of_owners, buffer(asked.ids), asked.of_me);
  asked.ids.sub_(balanced_range(table_.tensor.size(0), ranks, copies_.rank()).begin);
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

/// The lists of all ranks, one rank's after another's.
LookedUp::Lists LookedUp::gathered(const std::vector<Rows>& lists, const std::vector<int64_t>& of_ranks) const {
  std::vector<int64_t> mine, all(static_cast<size_t>(std::reduce(of_ranks.begin(), of_ranks.end())));
  for (const Rows& list : lists) mine.push_back(list.ids.numel());
  copies_.all_gather(const_buffer(mine), buffer(all), of_ranks);
  const std::vector<int64_t> counts = totals(all, of_ranks);
  std::vector<int64_t> elements;
  for (const int64_t of_rank : counts) elements.push_back(of_rank * shard_.size(1));
  const Rows sent = Rows::joined(lists, shard_);
  const int64_t count = std::reduce(counts.begin(), counts.end());
  const at::Tensor ids = at::empty({count}, sent.ids.options()),
                   rows = at::empty({count, shard_.size(1)}, sent.rows.options());
  copies_.all_gather(buffer(sent.ids), buffer(ids), counts);
  copies_.all_gather(buffer(sent.rows), buffer(rows), elements);
  return {{ids, rows}, std::move(all)};
}

/// What all ranks have of this rank's shard, of each list, one rank's after another's; the ids within the shard.
LookedUp::Lists LookedUp::sent_to_owners(const std::vector<Rows>& lists, const std::vector<int64_t>& of_ranks) const {
  std::vector<at::Tensor> ids;
  for (const Rows& list : lists) ids.push_back(list.ids);
  Asked asked = asked_of_owners(ids, of_ranks);
  std::vector<Rows> parts;  // by owner and list
  std::vector<int64_t> before(lists.size(), 0);
  for (size_t i = 0; i < asked.in_my_lists.size(); ++i) {
    const size_t list = i % lists.size();
    const int64_t first = std::exchange(before[list], before[list] + asked.in_my_lists[i]);
    parts.push_back(
        {ids[list].narrow(0, first, asked.in_my_lists[i]), lists[list].rows.narrow(0, first, asked.in_my_lists[i])});
  }
  const at::Tensor rows = Rows::joined(lists.size() == 1 ? lists : parts, shard_).rows;
  return {{asked.ids, exchanged(rows, asked.of_owners, asked.of_me)}, std::move(asked.in_lists)};
}

at::Tensor LookedUp::rows(const at::Tensor& ids) const {
  const at::NoGradGuard no_gradient;
  const auto rows_here = [&](const at::Tensor& of) { return at::index_select(shard_, 0, of.to(shard_.device())); };
  if (has_all_rows_) return rows_here(ids);
  const Asked asked = asked_of_owners({ids}, std::vector<int64_t>(static_cast<size_t>(copies_.size()), 1));
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
  // Of each rank: without lanes one list, whatever it is called.
  std::vector<std::vector<Range>> nodes(static_cast<size_t>(copies_.size()), {Range()});
  std::vector<Rows> lists{mine.all};
  if (lanes_) {
    nodes = lanes_->of_copies(nn::ranks_of_copies(table_), /*is_of_experts=*/false);
    for (auto& of_rank : nodes) of_rank = lanes_->tree.nodes_of(of_rank);
    lists.clear();
    for (const Range& node : nodes[static_cast<size_t>(copies_.rank())])
      lists.push_back(mine.lanes ? mine.lanes->take(node, RowGradients::sum).value_or(Rows()) : Rows());
  }
  for (Rows& list : lists) {
    if (!list.ids.defined()) list = Rows::none_of(shard_);
    if (scale != 1) list.rows.mul_(scale);
    if (copies_.size() > 1) list.rows = list.rows.to(sent);
  }
  std::vector<int64_t> of_ranks;
  for (const auto& of_rank : nodes) of_ranks.push_back(std::ssize(of_rank));
  Lists all{Rows::joined(lists, shard_), {}};
  for (const Rows& list : lists) all.counts.push_back(list.ids.numel());
  if (copies_.size() > 1) all = has_all_rows_ ? gathered(lists, of_ranks) : sent_to_owners(lists, of_ranks);
  if (lanes_) all.all = all.sum(lanes_->tree, nodes);
  // 16-bit numbers are added in float32 and rounded once, as by a collective.
  const at::ScalarType added = sent == at::kDouble ? at::kDouble : at::kFloat;
  const auto& [ids, rows] = all.all;
  if (!ids.defined()) return at::zeros(shard_.sizes(), shard_.options());
  return added_by_place(rows.to(added), ids, shard_.size(0)).to(sent).to(type);
}

void LookedUp::forget_gradients() {
  *gradients_ = {};
}

}  // namespace adjoin::parallel
