#pragma once

#include <string>
#include <string_view>

namespace adjoin {

// The LibTorch that this process has loaded.

std::string libtorch_version();
/// "" where the system does not say.
std::string libtorch_folder();
/// The instructions that its kernels use: "AVX512".
std::string libtorch_simd();
/// The devices that it finds besides the CPU, and how many: "cuda (2)"; "no device" for none.
std::string libtorch_devices();
/// Throws: InvalidArgument, with what it finds, for a word that is no device as device_of() takes it, or that is not here
void check_device(std::string_view word);
/// The number of threads of this thread's operations.
int libtorch_threads();

}  // namespace adjoin
