#pragma once

#include "adjoin/task/configuration.hpp"

namespace adjoin::train {

/// While it lives, matrix products of this thread use the precision's 16-bit type, if it has one.
class Autocast {
 public:
  explicit Autocast(Precision precision);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool before_;
};

}  // namespace adjoin::train
