#pragma once

#include <c10/core/Device.h>

#include <string_view>

#include "adjoin/comm/communicator.hpp"

namespace adjoin {

/// The device of a rank: "cpu"; "cuda", the GPU whose number is the rank's place on its host, by turns where there are fewer GPUs
/// than ranks; or "cuda:1", that one. Likewise for every other device that LibTorch has here. A rank on a thread
/// gets a stream of its own there: call it before making tensors. For a GPU it calls use_exact_kernels(!fast), also for
/// ranks of this process that are there already.
/// Throws: what check_device (libtorch.hpp) throws
at::Device device_of(std::string_view word, const Communicator& world, bool fast = false);

/// Makes the kernels of GPUs give the same bits at every run, and sums as exact as their type: no TF32, no 16-bit sums, no kernel that
/// adds in any order where another one is, and none chosen by timing. Or, if not `exact`, lets them be quicker: TF32, sums in 16 bits, and
/// any order, as in flash attention. Holds for the whole process.
void use_exact_kernels(bool exact = true);

}  // namespace adjoin
