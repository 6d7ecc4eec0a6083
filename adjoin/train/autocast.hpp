#pragma once

#include "adjoin/movement/autocast_mode.hpp"
#include "adjoin/task/precision.hpp"

namespace adjoin::train {

/// While it lives, matrix products of this thread on the device's type use the precision's 16-bit type, if it has one.
class Autocast : AutocastMode {
 public:
  Autocast(Precision precision, at::Device device)
      : AutocastMode(device.type(), product_type(precision) != weight_type(precision), product_type(precision)) {}
};

}  // namespace adjoin::train
