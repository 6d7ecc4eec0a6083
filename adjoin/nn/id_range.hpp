#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/stack.h>

#include <cstdint>
#include <tuple>
#include <utility>

namespace adjoin::nn {

/// The least and the largest of some ids, of which there is at least one. The host waits once for a device.
inline std::pair<int64_t, int64_t> range_of(const at::Tensor& ids) {
  const auto [least, most] = at::aminmax(ids);
  const at::Tensor both = at::stack({least, most}).cpu();
  return {both[0].item<int64_t>(), both[1].item<int64_t>()};
}

}  // namespace adjoin::nn
