#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

namespace adjoin::data {

/// The ids of the words that each thread met last, in 2 MB of its own for all caches together. Copies share their words, so they
/// must be of the same tokenizer.
class WordCache {
 public:
  /// Appends the ids of a word: as they were before, or else by `encode`.
  template <class Encode>
  void append(std::string_view word, std::vector<int64_t>& ids, Encode encode) const {
    if (word.size() > KnownWord::kLongest) return encode();
    KnownWord& known = place_of(word);
    if (known.owner == owner_ && known.length == word.size() &&
        std::memcmp(known.bytes.data(), word.data(), word.size()) == 0) {
      ids.insert(ids.end(), known.ids.begin(), known.ids.begin() + known.count);
      return;
    }
    const size_t before = ids.size(), count = (encode(), ids.size() - before);
    if (count > KnownWord::kMostIds) return;
    known.owner = owner_;
    known.length = static_cast<uint8_t>(word.size());
    known.count = static_cast<uint8_t>(count);
    std::memcpy(known.bytes.data(), word.data(), word.size());
    for (size_t i = 0; i < count; ++i) known.ids[i] = static_cast<int32_t>(ids[before + i]);
  }

 private:
  struct KnownWord {  // fills a cache line
    static constexpr size_t kLongest = 22, kMostIds = 8;

    uint64_t owner = 0;
    uint8_t length = 0, count = 0;
    std::array<char, kLongest> bytes;
    std::array<int32_t, kMostIds> ids;
  };

  /// The place of a word in this thread's memory: words with the same place replace each other.
  static KnownWord& place_of(std::string_view word) {
    constexpr size_t kPlaces = size_t{1} << 15;
    thread_local std::vector<KnownWord> words(kPlaces);
    return words[std::hash<std::string_view>{}(word) & (kPlaces - 1)];
  }

  static inline std::atomic<uint64_t> owners{0};
  uint64_t owner_ = ++owners;
};

}  // namespace adjoin::data
