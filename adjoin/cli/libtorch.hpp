#pragma once

#include <string>

namespace adjoin::cli {

/// The LibTorch that this process has loaded: "2.13.0 in /usr/lib".
std::string loaded_libtorch();

}  // namespace adjoin::cli
