#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/data/token_store.hpp"

namespace adjoin::data {

// A token file holds a TokenStore so that it can be mapped: a header of 64 bytes; the ids, of 2 or 4 bytes; from the next
// multiple of 8 the begins, of 8, and the labels, of 4; then a text of whoever wrote it. Numbers are little-endian.

/// Writes a token file, sample by sample, beside its place and then into it, so that the place never holds half of one;
/// processes that write the same file at once do not meet.
/// Cost: 12 bytes of memory a sample
class TokenFileWriter {
 public:
  /// For ids below `words`. Throws: IoError, as all functions do, where the disk refuses
  TokenFileWriter(std::filesystem::path place, int64_t words);
  /// Removes what was not published.
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;

  void add(std::span<const int64_t> ids, int64_t label);

  /// The same in parts: ids of a sample, and its end.
  void append(std::span<const int64_t> ids);
  void end_sample(int64_t label);

  /// Puts the file into its place when all of it is on the disk.
  void publish(std::string_view text);

 private:
  void write(const void* data, size_t bytes);
  void flush();
  void write_out(const char* data, size_t bytes);
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path place_;
  std::string temporary_;
  int descriptor_ = -1;
  bool narrow_;
  std::vector<char> pending_;
  int64_t tokens_ = 0;
  std::vector<int64_t> begins_{0};
  std::vector<int32_t> labels_;
};

struct TokenFile {
  TokenStore tokens;  // looks at the mapped file
  std::string text;
};

/// Maps a token file for reading; its ids are not looked at.
/// Throws: InvalidArgument where it cannot be opened, is cut short, of another version, or not what its header says
TokenFile map_token_file(const std::filesystem::path& path);

}  // namespace adjoin::data
