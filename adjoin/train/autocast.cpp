#include "adjoin/train/autocast.hpp"

#include <ATen/autocast_mode.h>

namespace adjoin::train {

Autocast::Autocast(const std::string& precision) : before_(at::autocast::is_autocast_enabled(at::kCPU)) {
  at::autocast::set_autocast_dtype(at::kCPU, precision == "fp16" ? at::kHalf : at::kBFloat16);
  // The cache of cast weights belongs to the process: one worker's clearing would drop the others' casts.
  at::autocast::set_autocast_cache_enabled(false);
  at::autocast::set_autocast_enabled(at::kCPU, precision == "bf16" || precision == "fp16");
}

Autocast::~Autocast() {
  at::autocast::set_autocast_enabled(at::kCPU, before_);
}

}  // namespace adjoin::train
