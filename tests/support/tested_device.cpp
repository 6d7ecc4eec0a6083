#include "tests/support/tested_device.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdlib>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/rank_device.hpp"

namespace adjoin::testing {

c10::Device tested_device(int number) {
  static const c10::DeviceType type = [] {
    const char* name = std::getenv("ADJOIN_TEST_DEVICE");
    if (name == nullptr) return kSimulated.type();
    use_exact_kernels();
    return c10::Device(name).type();
  }();
  const int devices = c10::impl::VirtualGuardImpl(type).deviceCount();
  require(devices > 0, "ADJOIN_TEST_DEVICE: no such device is here");
  return {type, static_cast<c10::DeviceIndex>(number % devices)};
}

}  // namespace adjoin::testing
