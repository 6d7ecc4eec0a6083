#include "adjoin/train/expert_counts.hpp"

#include <algorithm>
#include <numeric>
#include <span>

namespace adjoin::train {

ExpertCounts::ExpertCounts(const std::vector<models::Segment>& segments)
    : numbers_(static_cast<size_t>(count(segments))) {
  size_t first = 0;
  for (const models::Segment& segment : segments) {
    places_.push_back({segment.name, first, static_cast<size_t>(segment.experts)});
    first += places_.back().experts;
  }
}

int64_t ExpertCounts::count(const std::vector<models::Segment>& segments) {
  int64_t experts = 0;
  for (const models::Segment& segment : segments) experts += segment.experts;
  return experts == 0 ? 0 : experts + 2;
}

void ExpertCounts::add(size_t segment, const nn::ExpertLoads& loads) {
  if (numbers_.empty()) return;
  for (size_t i = 0; i < loads.rows.size(); ++i) numbers_[places_[segment].first + i] += loads.rows[i];
  numbers_[numbers_.size() - 2] += loads.balance;
  numbers_.back() += loads.z;
}

std::vector<Measure> ExpertCounts::measures(double loss_scale) const {
  if (numbers_.empty()) return {};
  double fullest = 0, with_experts = 0;
  for (const Place& place : places_) {
    if (place.experts == 0) continue;
    ++with_experts;
    const std::span rows = std::span(numbers_).subspan(place.first, place.experts);
    const double all = std::accumulate(rows.begin(), rows.end(), 0.0);
    if (all > 0) fullest = std::max(fullest, *std::ranges::max_element(rows) * static_cast<double>(rows.size()) / all);
  }
  std::vector<Measure> measures{{.name = "fullest_expert", .value = fullest}};
  const double balance = numbers_[numbers_.size() - 2], z = numbers_.back();
  if (balance != 0) measures.push_back({.name = "balance_loss", .value = balance / loss_scale / with_experts});
  if (z != 0) measures.push_back({.name = "z_loss", .value = z / loss_scale / with_experts});
  return measures;
}

RowsOfExperts ExpertCounts::rows() const {
  RowsOfExperts rows;
  for (const Place& place : places_)
    for (size_t i = 0; i < place.experts; ++i)
      rows[place.segment].push_back(static_cast<int64_t>(numbers_[place.first + i]));
  return rows;
}

}  // namespace adjoin::train
