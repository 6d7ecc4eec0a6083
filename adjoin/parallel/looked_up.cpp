#include "adjoin/parallel/looked_up.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/take.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/saved_value.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
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

/// What backward has left: the gradients of sorted, distinct rows.
struct LookedUp::RowGradients {
  at::Tensor ids, rows;

  void add(const at::Tensor& more_ids, const at::Tensor& more_rows) {
    if (!ids.defined()) {
      std::tie(ids, rows) = std::tie(more_ids, more_rows);
      return;
    }
    const auto [all, places, counts] = at::_unique2(at::cat({ids, more_ids}), /*sorted=*/true, /*return_inverse=*/true);
    rows = added_by_place(at::cat({rows, more_rows}), places, all.numel());
    ids = all;
  }
};

/// Puts the vectors of ids together from distinct rows. The table is its input for autograd, which therefore calls the hooks of its
/// gradient.
struct LookedUp::Vectors : torch::autograd::Function<Vectors> {
  struct Saved {
    at::Tensor distinct, places;  // the ids are distinct[places]
    int64_t table_rows, padding_idx;
    std::shared_ptr<RowGradients> gradients;
  };

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor&, const at::Tensor& rows, const Saved& saved) {
    ctx->saved_data["saved"] = saved_value(saved);
    return at::embedding(rows, saved.places.to(rows.device()));
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    const auto& [distinct, places, table_rows, padding_idx, found] = value_of<Saved>(ctx->saved_data["saved"]);
    const at::Tensor& of = gradients[0];
    const auto* const asked_for = torch::autograd::get_current_graph_task_exec_info();
    if (asked_for != nullptr && !asked_for->empty())  // by torch::autograd::grad
      return {added_by_place(of, at::take(distinct, places), table_rows, padding_idx), {}, {}};
    require(!at::GradMode::is_enabled(), "a look-up of sharded rows: double backward is not supported");
    const auto begin = distinct.const_data_ptr<int64_t>(), end = begin + distinct.numel();
    const auto padding = std::find(begin, end, padding_idx);
    found->add(distinct, added_by_place(of, places, distinct.numel(), padding == end ? -1 : padding - begin));
    return {{}, {}, {}};
  }
};

/// What the ranks ask of each other: the counts of this rank's ids by their owners, and what others ask of this one.
struct LookedUp::Asked {
  std::vector<int64_t> of_owners, of_me;
  at::Tensor ids;  // within this rank's shard, asked by one rank after another
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
  return Vectors::apply(table_.tensor, fetched, Vectors::Saved{distinct, places, table_rows, padding_idx, gradients_});
}

LookedUp::Asked LookedUp::asked_of_owners(const at::Tensor& ids) const {
  const int ranks = copies_.size();
  Asked asked{std::vector<int64_t>(static_cast<size_t>(ranks)), std::vector<int64_t>(static_cast<size_t>(ranks)), {}};
  const std::vector<int64_t> one_each(static_cast<size_t>(ranks), 1);
  const int64_t* from = ids.const_data_ptr<int64_t>();
  const int64_t* const end = from + ids.numel();
  for (int owner = 0; owner < ranks; ++owner) {
    const auto to = std::lower_bound(from, end, balanced_range(table_.tensor.size(0), ranks, owner).end);
    asked.of_owners[static_cast<size_t>(owner)] = to - std::exchange(from, to);
  }
  copies_.all_to_all(const_buffer(asked.of_owners), one_each, buffer(asked.of_me), one_each);
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

/// The ids and rows of all ranks, one after another.
void LookedUp::gather(at::Tensor& ids, at::Tensor& rows) const {
  const auto ranks = static_cast<size_t>(copies_.size());
  std::vector<int64_t> counts(ranks), elements(ranks);
  const std::vector<int64_t> mine{ids.numel()}, one_each(ranks, 1);
  copies_.all_gather(const_buffer(mine), buffer(counts), one_each);
  for (size_t rank = 0; rank < ranks; ++rank) elements[rank] = counts[rank] * rows.size(1);
  const int64_t all = std::reduce(counts.begin(), counts.end());
  const at::Tensor all_ids = at::empty({all}, ids.options()), all_rows = at::empty({all, rows.size(1)}, rows.options());
  copies_.all_gather(buffer(ids), buffer(all_ids), counts);
  copies_.all_gather(buffer(rows), buffer(all_rows), elements);
  ids = all_ids;
  rows = all_rows;
}

at::Tensor LookedUp::rows(const at::Tensor& ids) const {
  const at::NoGradGuard no_gradient;
  const auto rows_here = [&](const at::Tensor& of) { return at::index_select(shard_, 0, of.to(shard_.device())); };
  if (has_all_rows_) return rows_here(ids);
  const Asked asked = asked_of_owners(ids);
  return exchanged(rows_here(asked.ids), asked.of_me, asked.of_owners);
}

bool LookedUp::has_gradients() const {
  return gradients_->ids.defined();
}

at::Tensor LookedUp::sum_gradients(double scale, std::optional<at::ScalarType> wire) {
  const at::NoGradGuard no_gradient;
  const at::ScalarType type = shard_.scalar_type();
  const bool is_cast = copies_.size() > 1 && wire && (type == at::kFloat || type == at::kDouble);
  const at::ScalarType sent = is_cast ? *wire : type;
  auto [ids, rows] = std::exchange(*gradients_, {});
  if (!ids.defined()) {
    ids = at::empty({0}, at::kLong);
    rows = at::empty({0, shard_.size(1)}, shard_.options());
  }
  if (scale != 1) rows.mul_(scale);
  if (copies_.size() > 1) rows = rows.to(sent);
  if (copies_.size() > 1 && has_all_rows_) {
    gather(ids, rows);
  } else if (copies_.size() > 1) {
    const Asked asked = asked_of_owners(ids);
    rows = exchanged(rows, asked.of_owners, asked.of_me);
    ids = asked.ids;
  }
  // 16-bit numbers are added in float32 and rounded once, as by a collective.
  const at::ScalarType added = sent == at::kDouble ? at::kDouble : at::kFloat;
  return added_by_place(rows.to(added), ids, shard_.size(0)).to(sent).to(type);
}

void LookedUp::forget_gradients() {
  *gradients_ = {};
}

}  // namespace adjoin::parallel
