#include "adjoin/movement/staging.hpp"

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

namespace adjoin {

at::Tensor Staging::take(int64_t count, const at::TensorOptions& options) {
  const at::TensorOptions plain = options.requires_grad(false);
  if (!memory_.defined() || memory_.numel() < count || memory_.dtype() != plain.dtype() ||
      (memory_.is_inference() && !c10::InferenceMode::is_enabled()))
    memory_ = at::empty({count}, plain);
  return memory_.narrow(0, 0, count);
}

at::Tensor Staging::contiguous(const at::Tensor& x) {
  if (x.is_contiguous()) return x;
  return take(x.numel(), x.options()).view(x.sizes()).copy_(x.detach());
}

}  // namespace adjoin
