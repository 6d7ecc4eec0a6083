#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adjoin/models/segment.hpp"
#include "adjoin/nn/mixture_of_experts.hpp"
#include "adjoin/task/measure.hpp"
#include "adjoin/train/results.hpp"

namespace adjoin::train {

/// What the experts of a model did: for each segment that has experts, in order, the rows of each expert, and the losses of the
/// routers over all segments. All numbers add up over micro-batches and ranks.
class ExpertCounts {
 public:
  explicit ExpertCounts(const std::vector<models::Segment>& segments);

  /// How many numbers all segments have together; 0 where there are no experts.
  static int64_t count(const std::vector<models::Segment>& segments);

  void add(size_t segment, const nn::ExpertLoads& loads);
  /// All numbers, to be summed over ranks.
  std::vector<double>& numbers() { return numbers_; }

  /// The rows of the fullest expert, of all segments, divided by the mean of its segment; and where there are router losses,
  /// their means over the segments, divided by `loss_scale`.
  std::vector<Measure> measures(double loss_scale) const;
  RowsOfExperts rows() const;

 private:
  struct Place {
    std::string segment;
    size_t first, experts;  // the place of its rows among the numbers
  };
  std::vector<Place> places_;  // for each segment of the model
  std::vector<double> numbers_;
};

}  // namespace adjoin::train
