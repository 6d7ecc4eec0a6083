#include "adjoin/nn/expert_tokens.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/linear_map.hpp"
#include "adjoin/movement/point_to_point.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::nn {
namespace {

thread_local const AssumedExperts* assumed = nullptr;

/// Some ranges of rows of x, one after another.
at::Tensor pieces(const at::Tensor& x, const std::vector<Range>& ranges) {
  std::vector<at::Tensor> parts;
  parts.reserve(ranges.size());
  for (const Range& range : ranges) parts.push_back(x.narrow(0, range.begin, range.size()));
  return at::cat(parts);
}

/// The sum of some of the counts.
int64_t sum_of(const std::vector<int64_t>& counts, size_t begin, size_t count) {
  const auto first = counts.begin() + static_cast<std::ptrdiff_t>(begin);
  return std::accumulate(first, first + static_cast<std::ptrdiff_t>(count), int64_t{0});
}

/// For each expert, how many pairs of a row and an expert have it.
std::vector<int64_t> pairs_of_experts(std::span<const int64_t> expert_of, int64_t experts, int rank) {
  std::vector<int64_t> counts(static_cast<size_t>(experts));
  for (const int64_t expert : expert_of) {
    require(expert >= 0 && expert < experts, [&] {
      return "ExpertTokens: rank " + std::to_string(rank) + ": expected experts from 0 to " +
             std::to_string(experts - 1) + ", got " + std::to_string(expert);
    });
    ++counts[static_cast<size_t>(expert)];
  }
  return counts;
}

/// The pairs sorted by expert, and the place of each pair among them. `counts`: the pairs of each expert.
std::pair<at::Tensor, at::Tensor> sorted_by_expert(std::span<const int64_t> expert_of,
                                                   const std::vector<int64_t>& counts) {
  std::vector<int64_t> next(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), next.begin(), int64_t{0});
  at::Tensor sorted = at::empty({std::ssize(expert_of)}, at::kLong), places = at::empty_like(sorted);
  auto* const pair_at = sorted.mutable_data_ptr<int64_t>();
  auto* const place_of = places.mutable_data_ptr<int64_t>();
  for (size_t pair = 0; pair < expert_of.size(); ++pair) {
    int64_t& place = next[static_cast<size_t>(expert_of[pair])];
    place_of[pair] = place;
    pair_at[place++] = static_cast<int64_t>(pair);
  }
  return {std::move(sorted), std::move(places)};
}

/// For consecutive blocks of rows, `outer` times `inner` of them: the range of each, with the inner index now outside.
std::vector<Range> transposed(const std::vector<int64_t>& rows, size_t outer, size_t inner) {
  std::vector<int64_t> begins{0};
  for (const int64_t count : rows) begins.push_back(begins.back() + count);
  std::vector<Range> ranges;
  for (size_t i = 0; i < inner; ++i)
    for (size_t o = 0; o < outer; ++o) ranges.push_back({begins[o * inner + i], begins[o * inner + i + 1]});
  return ranges;
}

/// Where the rows of each rank and leaf are, from their counts by rank, expert here and leaf; rows are sorted by expert, rank and leaf.
fixed::GroupedRows::OfSources rows_of_sources(const std::vector<int64_t>& counts, size_t ranks, size_t experts,
                                              size_t leaves) {
  fixed::GroupedRows::OfSources sources(ranks, std::vector<std::vector<Range>>(leaves));
  int64_t before = 0;
  for (size_t expert = 0; expert < experts; ++expert)
    for (size_t rank = 0; rank < ranks; ++rank)
      for (size_t leaf = 0; leaf < leaves; ++leaf) {
        const int64_t begin = std::exchange(before, before + counts[(rank * experts + expert) * leaves + leaf]);
        sources[rank][leaf].push_back({begin, before});
      }
  return sources;
}

}  // namespace

ExpertTokens::ExpertTokens(const at::Tensor& chosen, const Split& experts, const Communicator& group, at::Device device,
                           const std::vector<int64_t>& leaf_of, int64_t leaves) {
  const auto ranks = static_cast<size_t>(group.size());
  require(experts.parts() == group.size() && experts.in_order(), [&] {
    return "ExpertTokens: expected a range of experts for each of " + std::to_string(group.size()) + " ranks, got " +
           experts.to_string();
  });
  auto routes = std::make_shared<Routes>();
  routes->rows = chosen.size(0);
  routes->top_k = chosen.size(1);
  routes->group = group;
  const at::Tensor pairs = plain("ExpertTokens", chosen).cpu().contiguous().view(-1);
  const std::span expert_of(pairs.const_data_ptr<int64_t>(), static_cast<size_t>(pairs.numel()));
  routes->sent = pairs_of_experts(expert_of, experts.size(), group.rank());
  if (experts.size() > 1) {
    std::tie(routes->order, routes->inverse) = sorted_by_expert(expert_of, routes->sent);
    for (at::Tensor* places : {&routes->order, &routes->inverse}) *places = places->to(device);
    routes->row = routes->top_k == 1 ? routes->order : routes->order.floor_divide(routes->top_k);
  }
  // What each rank sends to each expert here, rank by rank: of each leaf, or all at once.
  std::vector<int64_t> counts = routes->sent, numbers = experts.sizes();
  if (leaves > 0) {
    counts.assign(counts.size() * static_cast<size_t>(leaves), 0);
    for (size_t pair = 0; pair < expert_of.size(); ++pair)
      ++counts[static_cast<size_t>(expert_of[pair] * leaves + leaf_of[pair / static_cast<size_t>(routes->top_k)])];
    for (int64_t& number : numbers) number *= leaves;
  }
  if (ranks > 1) counts = exchange_counts(counts, numbers, group);
  const auto here = static_cast<size_t>(experts.size(group.rank())),
             each = static_cast<size_t>(std::max<int64_t>(leaves, 1));
  if (leaves > 0)
    routes->sources = std::make_shared<const fixed::GroupedRows::OfSources>(rows_of_sources(counts, ranks, here, each));
  std::vector<int64_t> from_each(ranks * here);
  for (size_t i = 0; i < counts.size(); ++i) from_each[i / each] += counts[i];
  if (assumed && assumed->alone())
    for (size_t i = 0; i < from_each.size(); ++i)
      from_each[i] = routes->sent[static_cast<size_t>(experts.offset(group.rank())) + i % here];
  routes->received.assign(here, 0);
  for (size_t i = 0; i < from_each.size(); ++i) routes->received[i % here] += from_each[i];
  for (size_t rank = 0; rank < ranks; ++rank) {
    const auto part = static_cast<int>(rank);
    routes->to.push_back(
        sum_of(routes->sent, static_cast<size_t>(experts.offset(part)), static_cast<size_t>(experts.size(part))));
    routes->from.push_back(sum_of(from_each, rank * here, here));
  }
  if (ranks > 1 && here > 1) {
    routes->by_expert = transposed(from_each, ranks, here);
    std::vector<int64_t> rows;
    for (const Range& range : routes->by_expert) rows.push_back(range.size());
    routes->back = transposed(rows, here, ranks);
  }
  routes_ = std::move(routes);
}

at::Tensor ExpertTokens::to_experts(const at::Tensor& x) const {
  at::Tensor sorted = x;
  if (routes_->order.defined())
    sorted =
        apply({.forward = [routes = routes_](const at::Tensor& t) { return t.index_select(0, routes->row); },
               .adjoint =
                   [routes = routes_](const at::Tensor& t) {
                     const at::Tensor pairs = t.index_select(0, routes->inverse);
                     return routes->top_k == 1 ? pairs : pairs.view({routes->rows, routes->top_k, t.size(1)}).sum(1);
                   }},
              x);
  if (routes_->group.size() == 1) return sorted;
  const at::Tensor came = all_to_all(sorted, routes_->to, routes_->from, routes_->group);
  if (routes_->by_expert.empty()) return came;
  return apply({.forward = [routes = routes_](const at::Tensor& t) { return pieces(t, routes->by_expert); },
                .adjoint = [routes = routes_](const at::Tensor& t) { return pieces(t, routes->back); }},
               came);
}

at::Tensor ExpertTokens::from_experts(const at::Tensor& y) const {
  at::Tensor sorted = y;
  if (routes_->group.size() > 1) {
    if (!routes_->back.empty())
      sorted = apply({.forward = [routes = routes_](const at::Tensor& t) { return pieces(t, routes->back); },
                      .adjoint = [routes = routes_](const at::Tensor& t) { return pieces(t, routes->by_expert); }},
                     y);
    sorted = all_to_all(sorted, routes_->from, routes_->to, routes_->group);
  }
  if (routes_->order.defined())
    sorted = apply({.forward = [routes = routes_](const at::Tensor& t) { return t.index_select(0, routes->inverse); },
                    .adjoint = [routes = routes_](const at::Tensor& t) { return t.index_select(0, routes->order); }},
                   sorted);
  return sorted.view({routes_->rows, routes_->top_k, sorted.size(1)});
}

AssumedExperts::AssumedExperts(Spread spread, bool alone)
    : spread_(spread), alone_(alone), outer_(std::exchange(assumed, this)) {}
AssumedExperts::~AssumedExperts() {
  assumed = outer_;
}

const AssumedExperts* AssumedExperts::any() {
  return assumed;
}

at::Tensor AssumedExperts::in_place_of(const at::Tensor& chosen, const Split& experts, int rank) {
  if (!any()) return chosen;
  const int64_t here = experts.size(rank), top_k = chosen.size(1);
  // Consecutive experts, so that those of a row are different: in turn over all experts, or over those here.
  const bool around_here = assumed->spread_ == Spread::here && top_k <= here;
  const int64_t first = assumed->spread_ == Spread::here ? experts.offset(rank) : 0;
  const at::Tensor pairs = assumed->spread_ == Spread::here && !around_here
                               ? at::arange(top_k, chosen.options()).expand_as(chosen)
                               : at::arange(chosen.numel(), chosen.options()).view_as(chosen);
  return around_here ? first + pairs.remainder(here) : (first + pairs).remainder(experts.size());
}

}  // namespace adjoin::nn
