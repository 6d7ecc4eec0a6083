#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adjoin/data/token_store.hpp"

namespace adjoin::data {

// A token file holds a TokenStore so that it can be mapped: a header of 64 bytes; the ids, 2 or 4 bytes each; then, from the
// next multiple of 8, the begins, 8 bytes each, and the labels, 4 bytes each; then a text by the writer. Numbers are
// little-endian.

/// Writes a token file, sample by sample, beside its place and then moves it there, so that the place never holds half of one.
/// Processes that write the same file at once do not disturb each other.
/// Cost: 12 bytes of memory a sample
class TokenFileWriter {
 public:
  /// For ids below `words`. Throws: IoError, as all functions do, where the disk refuses
  TokenFileWriter(std::filesystem::path place, int64_t words);
  /// Removes a file that was not published.
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;

  void add(std::span<const int64_t> ids, int64_t label);

  /// The same in parts: first ids of a sample, then its end.
  void append(std::span<const int64_t> ids);
  void end_sample(int64_t label);

  /// Moves the file to its place when all of it is on the disk.
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
  TokenStore tokens;  // uses the mapped file
  std::string text;
};

/// Maps a token file for reading; its ids are not checked.
/// Throws: InvalidArgument where it cannot be opened, is truncated, has another version, or contradicts its header
TokenFile map_token_file(const std::filesystem::path& path);

}  // namespace adjoin::data
