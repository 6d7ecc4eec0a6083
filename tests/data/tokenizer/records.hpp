#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "tests/data/data_files.hpp"

namespace adjoin::data {

inline std::string bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Records that an oracle wrote: a 32-bit count, and so many items of so many bytes.
inline std::vector<std::string> records(const std::string& path, size_t bytes_an_item) {
  const std::string all = bytes_of_file(path);
  EXPECT_FALSE(all.empty()) << path;
  std::vector<std::string> found;
  for (size_t at = 0; at + sizeof(uint32_t) <= all.size();) {
    uint32_t count = 0;
    std::memcpy(&count, all.data() + at, sizeof count);
    at += sizeof count;
    found.push_back(all.substr(at, count * bytes_an_item));
    at += count * bytes_an_item;
  }
  return found;
}

inline std::vector<int64_t> ids_of(const std::string& record) {
  std::vector<int64_t> ids;
  for (size_t at = 0; at < record.size(); at += 2)
    ids.push_back(static_cast<unsigned char>(record[at]) | static_cast<unsigned char>(record[at + 1]) << 8);
  return ids;
}

/// Runs a Python program of tests/tools, and throws what it printed where it fails. `arguments` are quoted for the shell.
inline void run_oracle(const std::string& program, const std::string& arguments, const TemporaryFolder& folder) {
  const std::string command = "'" ADJOIN_PYTHON "' '" ADJOIN_SOURCE_DIR "/tests/tools/" + program + "' " + arguments +
                              " > '" + folder.path("printed") + "' 2>&1";
  if (std::system(command.c_str()) != 0)
    throw Error(command + " failed; tools/setup installs what it needs:\n" + bytes_of_file(folder.path("printed")));
}

}  // namespace adjoin::data
