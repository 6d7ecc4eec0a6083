#pragma once

#include <c10/core/Device.h>

#include "tests/support/simulated_device/simulated_device.hpp"

namespace adjoin::testing {

/// The device that tests use: the simulated one, or one of the kind that ADJOIN_TEST_DEVICE names ("cuda"), by turns where `number` is
/// beyond those that are there.
c10::Device tested_device(int number = 0);

}  // namespace adjoin::testing
