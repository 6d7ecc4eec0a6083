#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "adjoin/models/segment.hpp"
#include "adjoin/nn/mixture_of_experts.hpp"
#include "adjoin/train/measure.hpp"

namespace adjoin::train {

/// The rows that went to each expert, by the name of a segment that has some.
using RowsOfExperts = std::map<std::string, std::vector<int64_t>>;

/// What the experts of a model did: for each segment that has some, in their order, the rows of each expert, and over all
/// segments the losses of their routers. All of it adds up over micro-batches and ranks.
class ExpertCounts {
 public:
  explicit ExpertCounts(const std::vector<models::Segment>& segments);

  /// How many numbers those of all segments are; 0 where there are no experts.
  static int64_t count(const std::vector<models::Segment>& segments);

  void add(size_t segment, const nn::ExpertLoads& loads);
  /// All numbers, to add up over ranks.
  std::vector<double>& numbers() { return numbers_; }

  /// The rows of the fullest expert of all segments over the mean of its segment's; and where there are some, the means over segments
  /// of the losses, with `loss_scale` taken out of them.
  std::vector<Measure> measures(double loss_scale) const;
  RowsOfExperts rows() const;

 private:
  struct Place {
    std::string segment;
    size_t first, experts;  // where its rows are among the numbers
  };
  std::vector<Place> places_;  // of each of the model's segments
  std::vector<double> numbers_;
};

}  // namespace adjoin::train
