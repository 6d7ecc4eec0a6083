#include "adjoin/train/autocast.hpp"
#include "adjoin/task/precision.hpp"

#include <ATen/autocast_mode.h>

namespace adjoin::train {

Autocast::Autocast(Precision precision, at::Device device)
    : device_(device.type()), before_(at::autocast::is_autocast_enabled(device_)) {
  const bool is_on = product_type(precision) != weight_type(precision);
  if (is_on) at::autocast::set_autocast_dtype(device_, product_type(precision));
  // The cache of cast weights belongs to the process: when one worker clears it, the others lose their casts.
  at::autocast::set_autocast_cache_enabled(false);
  at::autocast::set_autocast_enabled(device_, is_on);
}

Autocast::~Autocast() {
  at::autocast::set_autocast_enabled(device_, before_);
}

}  // namespace adjoin::train
