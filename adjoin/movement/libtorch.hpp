#pragma once

#include <string>

namespace adjoin {

// The LibTorch that this process has loaded.

std::string libtorch_version();
/// "" where the system does not say.
std::string libtorch_folder();
/// The instructions that its kernels use: "AVX512".
std::string libtorch_simd();
/// The devices that it finds besides the CPU, and how many: "cuda (2)"; "no device" for none.
std::string libtorch_devices();
/// The number of threads of this thread's operations.
int libtorch_threads();

}  // namespace adjoin
