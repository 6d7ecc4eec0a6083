#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace adjoin::plan {

/// While it lives, matrix products of this thread, and of the backward passes of what it computes, give zeros at once, in
/// memory of the same size. For runs in which only shapes, memory and calls matter. It does not affect products that write into
/// a given tensor.
class SkippedProducts {
 public:
  SkippedProducts();

 private:
  c10::impl::IncludeDispatchKeyGuard guard_;
};

}  // namespace adjoin::plan
