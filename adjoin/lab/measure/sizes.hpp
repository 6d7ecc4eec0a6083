#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace adjoin::measure {

/// Bytes from text: "64", "4K", "1M", "2G", in powers of 1024.
/// Throws: InvalidArgument for anything else, zero or a number beyond int64_t
int64_t bytes_from(std::string_view text);

/// Several of them with commas in between, at least one.
std::vector<int64_t> sizes_from(std::string_view list);

/// "64 B", "4 KiB", "1 MiB"; a number that no unit divides in the largest that leaves it whole.
std::string text_of_bytes(int64_t bytes);

}  // namespace adjoin::measure
