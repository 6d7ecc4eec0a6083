#include "adjoin/store/read_text.hpp"

#include <fstream>
#include <sstream>
#include <system_error>

#include "adjoin/base/error.hpp"

namespace adjoin::train {

std::string read_text(const std::filesystem::path& path) {
  std::error_code none;
  const auto status = std::filesystem::status(path, none);
  require(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status),
          [&] { return path.string() + ": expected a file"; });
  std::ifstream file(path, std::ios::binary);
  require(file.is_open(), [&] { return path.string() + ": the file cannot be opened"; });
  std::ostringstream text;
  text << file.rdbuf();
  require(file.good() || file.eof(), [&] { return path.string() + ": the file cannot be read"; });
  return text.str();
}

std::string text_or_nothing(const std::filesystem::path& path) {
  try {
    return read_text(path);
  } catch (const InvalidArgument&) {
    return "";
  }
}

}  // namespace adjoin::train
