#include "adjoin/cli/libtorch.hpp"

#include <ATen/Context.h>
#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include <filesystem>

namespace adjoin::cli {

std::string loaded_libtorch() {
  Dl_info found{};
  const bool is_found = ::dladdr(reinterpret_cast<const void*>(&at::globalContext), &found) != 0;
  return std::string(TORCH_VERSION) +
         (is_found ? " in " + std::filesystem::path(found.dli_fname).parent_path().string() : "");
}

}  // namespace adjoin::cli
