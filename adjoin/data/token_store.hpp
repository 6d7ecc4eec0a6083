#pragma once

#include <cstdint>
#include <memory>
#include <span>
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

}  // namespace adjoin::data
