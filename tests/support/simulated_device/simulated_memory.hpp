#pragma once

#include <c10/core/Allocator.h>

#include <initializer_list>
#include <vector>

#include "adjoin/base/not_copied.hpp"

namespace at {
class Tensor;
}

/// Memory of a device that this machine does not have: the CPU may touch it only while an `OpenMemory` names it, as the kernels of the
/// device do. A loop that reads or writes it otherwise ends the program with a segmentation fault at its line.
namespace adjoin::testing::simulated {

inline constexpr int kDevices = 2;

c10::Allocator& memory();

/// The device on which this thread allocates.
c10::DeviceIndex current_device();
void set_current_device(c10::DeviceIndex index);

/// Lets the CPU touch the storages of these tensors, as far as they are on the device, for as long as it lives. Any number of
/// threads may open the same memory.
class OpenMemory : NotCopied {
 public:
  OpenMemory(std::initializer_list<at::Tensor> tensors);
  ~OpenMemory();

 private:
  std::vector<const void*> opened_;
};

}  // namespace adjoin::testing::simulated
