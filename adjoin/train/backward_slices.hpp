#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string_view>

#include "adjoin/lab/timeline.hpp"

namespace adjoin::train {

/// Slices of this thread's timeline for the backward of each segment: that of a segment begins when the gradient of its output is
/// there, and lasts until that of the one before begins, or until all of backward is over.
class BackwardSlices : public std::enable_shared_from_this<BackwardSlices> {
 public:
  /// Has the slice begin by a hook on a segment's output, if that is differentiated at all. `name` outlives what the timeline notes.
  void note(const at::Tensor& output, std::string_view name);

 private:
  void begin(std::string_view name);

  std::optional<lab::TimeSlice> open_;
};

}  // namespace adjoin::train
