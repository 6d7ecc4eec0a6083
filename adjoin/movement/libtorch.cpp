#include "adjoin/movement/libtorch.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include <filesystem>

namespace adjoin {

std::string libtorch_version() {
  return TORCH_VERSION;
}

std::string libtorch_folder() {
  Dl_info found{};
  if (::dladdr(reinterpret_cast<const void*>(&at::globalContext), &found) == 0) return "";
  return std::filesystem::path(found.dli_fname).parent_path().string();
}

std::string libtorch_simd() {
  return at::get_cpu_capability();
}

int libtorch_threads() {
  return at::get_num_threads();
}

}  // namespace adjoin
