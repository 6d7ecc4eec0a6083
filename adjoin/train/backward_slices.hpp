#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string_view>

#include "adjoin/lab/timeline.hpp"

namespace adjoin::train {

/// Slices of this thread's timeline for the backward of each segment. A segment's slice begins when the gradient of its output
/// is computed, and lasts until the slice of the segment before it begins, or until the whole backward is over.
class BackwardSlices : public std::enable_shared_from_this<BackwardSlices> {
 public:
  /// Begins the slice by a hook on a segment's output, if the output is differentiated at all. `name` must outlive the
  /// timeline's notes.
  void note(const at::Tensor& output, std::string_view name);

 private:
  void begin(std::string_view name);

  std::optional<lab::TimeSlice> open_;
};

}  // namespace adjoin::train
