#pragma once

#include <zlib.h>

#include <string>

namespace adjoin::data {

/// What went wrong in the last read of a file by zlib, without the path; "" if nothing did.
std::string gzip_failure(gzFile file, const std::string& path);

}  // namespace adjoin::data
