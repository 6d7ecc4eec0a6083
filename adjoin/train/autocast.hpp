#pragma once

#include <c10/core/Device.h>

#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// While it lives, matrix products of this thread on the device's type use the precision's 16-bit type, if it has one.
class Autocast {
 public:
  Autocast(Precision precision, at::Device device);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  bool before_;
};

}  // namespace adjoin::train
