#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace adjoin::measure {

/// "512", "4K", "1M" or "2G" (1024-based) as bytes; up to 2^50.
/// Throws: InvalidArgument that names the option, for anything else.
int64_t bytes_of(std::string_view text, std::string_view option);

/// "64,4K,1M" as bytes, each as above.
std::vector<int64_t> all_bytes_of(std::string_view text, std::string_view option);

/// "64 B", "4 KiB", "1 MiB"; the unit is the largest one in which the number is whole.
std::string text_of_bytes(int64_t bytes);

}  // namespace adjoin::measure
