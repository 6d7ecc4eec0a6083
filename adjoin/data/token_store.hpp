#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace adjoin::data {

/// The samples of a data set as token ids and classes. All ids are in one array, of 16-bit numbers if the vocabulary is small
/// enough, else of 32-bit numbers; so a sample takes its ids and 12 bytes. Copies share their content, which does not change,
/// so threads may share a store.
class TokenStore {
 public:
  /// The arrays of a store, in memory or in a mapped file. Only one of the two kinds of ids is used.
  struct Arrays {
    std::span<const uint16_t> narrow{};
    std::span<const uint32_t> wide{};
    std::span<const int64_t> begins{};  // where each sample's ids begin, and the end: one more than samples
    std::span<const int32_t> labels{};  // one for each sample
    bool mapped = false;                // from a file
  };

  /// No samples.
  TokenStore() = default;
  /// `owner` keeps the arrays alive.
  TokenStore(const Arrays& arrays, std::shared_ptr<const void> owner) : arrays_(arrays), owner_(std::move(owner)) {}

  int64_t size() const { return static_cast<int64_t>(arrays_.labels.size()); }
  int64_t length(int64_t sample) const { return begin(sample + 1) - begin(sample); }
  int64_t label(int64_t sample) const { return arrays_.labels[static_cast<size_t>(sample)]; }
  std::vector<int64_t> ids(int64_t sample) const;
  /// `count` ids of a sample, beginning with its id `first`. Pages of a mapped file do not stay in this process's memory, so
  /// that reading a long sample does not fill it.
  std::vector<int64_t> ids(int64_t sample, int64_t first, int64_t count) const;
  std::vector<int64_t> lengths() const;

  const Arrays& arrays() const { return arrays_; }

 private:
  std::vector<int64_t> run(int64_t first, int64_t count, bool forgets) const;
  int64_t begin(int64_t sample) const { return arrays_.begins[static_cast<size_t>(sample)]; }

  Arrays arrays_;
  std::shared_ptr<const void> owner_;
};

/// Whether the ids of a vocabulary of `words` pieces fit into 16 bits.
constexpr bool fits_narrow(int64_t words) {
  return words <= int64_t{1} << 16;
}

/// Builds a TokenStore in memory, one sample after the other.
class TokenStoreBuilder {
 public:
  /// For ids below `words`.
  explicit TokenStoreBuilder(int64_t words) : narrow_(fits_narrow(words)) {}

  void add(std::span<const int64_t> ids, int64_t label);

  /// The store of all that was added; afterwards the builder is empty.
  TokenStore finish();

 private:
  struct Held {
    std::vector<uint16_t> narrow;
    std::vector<uint32_t> wide;
    std::vector<int64_t> begins{0};
    std::vector<int32_t> labels;
  };

  bool narrow_;
  Held held_;
};

/// The samples at these places, in this order.
TokenStore selected(const TokenStore& store, std::span<const int64_t> samples);

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
