#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace adjoin::data {

/// The samples of a data set as token ids and classes. All ids lie one after another, in 16 bits where the vocabulary has
/// no more pieces than that, else in 32; so a sample costs its ids and 12 bytes. Copies share what they hold, which does
/// not change, so threads may share one.
class TokenStore {
 public:
  /// The arrays that a store looks at: in memory, or in a mapped file. Of the two kinds of ids one is used.
  struct Arrays {
    std::span<const uint16_t> narrow{};
    std::span<const uint32_t> wide{};
    std::span<const int64_t> begins{};  // of each sample's ids, and their end: one more than samples
    std::span<const int32_t> labels{};  // one a sample
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
  /// `count` ids of a sample from its id `first` on. Of a mapped file they do not stay in this process's memory, so that
  /// what was read of a long sample does not add up.
  std::vector<int64_t> ids(int64_t sample, int64_t first, int64_t count) const;
  std::vector<int64_t> lengths() const;

  const Arrays& arrays() const { return arrays_; }

 private:
  std::vector<int64_t> run(int64_t first, int64_t count, bool forgets) const;
  int64_t begin(int64_t sample) const { return arrays_.begins[static_cast<size_t>(sample)]; }

  Arrays arrays_;
  std::shared_ptr<const void> owner_;
};

/// Whether the ids of a vocabulary of `words` pieces fit 16 bits.
constexpr bool fits_narrow(int64_t words) {
  return words <= int64_t{1} << 16;
}

/// Puts samples into memory, one after the other.
class TokenStoreBuilder {
 public:
  /// For ids below `words`.
  explicit TokenStoreBuilder(int64_t words) : narrow_(fits_narrow(words)) {}

  void add(std::span<const int64_t> ids, int64_t label);

  /// The store of what was added; the builder begins anew.
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

/// The samples of these places, in their order.
TokenStore selected(const TokenStore& store, std::span<const int64_t> samples);

}  // namespace adjoin::data
