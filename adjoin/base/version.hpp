#pragma once

namespace adjoin {

/// The version of the library and the program; CMake reads it here.
inline constexpr const char* kVersion = "0.1.0";

}  // namespace adjoin
