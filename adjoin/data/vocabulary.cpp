#include "adjoin/data/vocabulary.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/utf8.hpp"
#include "adjoin/data/tokenizer/longest_pieces.hpp"
#include "adjoin/data/tokenizer/text_steps.hpp"

namespace adjoin::data {
namespace {

constexpr size_t kSmallestSize = 32;

using Piece = int32_t;  // an index in the list of pieces
using Pair = std::pair<Piece, Piece>;

struct Word {
  std::vector<Piece> pieces;
  int64_t count;
};

struct PairHash {
  size_t operator()(const Pair& pair) const {
    return std::hash<int64_t>{}((static_cast<int64_t>(pair.first) << 32) | pair.second);
  }
};

using WordCounts = std::map<std::string, int64_t>;

/// The characters of a word as pieces: the first unchanged, the others with "##".
std::vector<std::string> spell(const std::string& word) {
  std::vector<std::string> characters;
  for (size_t at = 0; at < word.size();) {
    const auto length = static_cast<size_t>(decode_utf8(word, at).length);
    std::string& character = characters.emplace_back(at == 0 ? "" : "##");
    character.append(word, at, length);
    at += length;
  }
  return characters;
}

std::vector<std::string> frequent_characters(const WordCounts& words, int64_t min_count, size_t most) {
  std::map<std::string, int64_t> counts;
  for (const auto& [word, count] : words)
    for (const std::string& character : spell(word)) counts[character] += count;
  std::vector<std::pair<int64_t, std::string>> ranked;
  for (const auto& [character, count] : counts)
    if (count >= min_count) ranked.emplace_back(-count, character);
  std::sort(ranked.begin(), ranked.end());
  ranked.resize(std::min(ranked.size(), most));
  std::vector<std::string> characters;
  for (auto& [count, character] : ranked) characters.push_back(std::move(character));
  return characters;
}

/// Words as pieces, and for each pair of neighbours how often it occurs in which words.
class PairJoiner {  // counted words are short, so joining a pair in one takes bounded time
 public:
  PairJoiner(const WordCounts& words, std::vector<std::string>& pieces) : pieces_(pieces) {
    for (size_t i = 0; i < pieces.size(); ++i) ids_.emplace(pieces[i], static_cast<Piece>(i));
    for (const auto& [word, count] : words) add(word, count);
    for (const auto& [pair, count] : counts_) queue_.emplace(count, Reversed{pair});
  }

  /// Joins the most frequent pair into a new piece; returns false if no pair occurs `min_count` times.
  bool join_most_frequent(int64_t min_count) {
    while (!queue_.empty()) {
      const auto [count, reversed] = queue_.top();
      queue_.pop();
      const Pair pair = reversed.pair;
      if (counts_[pair] != count) continue;  // an outdated entry; the new count has its own entry
      if (count < min_count) return false;
      join(pair);
      return true;
    }
    return false;
  }

 private:
  struct Reversed {  // of equal counts the pair of older pieces comes first
    Pair pair;
    bool operator<(const Reversed& other) const { return pair > other.pair; }
  };

  void add(const std::string& word, int64_t count) {
    Word spelled{{}, count};
    for (const std::string& character : spell(word)) {
      const auto found = ids_.find(character);
      if (found == ids_.end()) return;  // the word is [UNK] in any case
      spelled.pieces.push_back(found->second);
    }
    words_.push_back(std::move(spelled));
    change_counts(static_cast<int32_t>(words_.size()) - 1, +1);
  }

  void change_counts(int32_t word_index, int64_t sign) {
    const Word& word = words_[static_cast<size_t>(word_index)];
    for (size_t i = 1; i < word.pieces.size(); ++i) {
      const Pair pair{word.pieces[i - 1], word.pieces[i]};
      counts_[pair] += sign * word.count;
      if (sign > 0) places_[pair].push_back(word_index);
      changed_.push_back(pair);
    }
  }

  void join(Pair pair) {
    const Piece joined =
        piece_of(pieces_[static_cast<size_t>(pair.first)] + pieces_[static_cast<size_t>(pair.second)].substr(2));
    std::vector<int32_t> places = std::move(places_[pair]);
    places_.erase(pair);
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    changed_.clear();
    for (const int32_t place : places) {
      change_counts(place, -1);
      replace(words_[static_cast<size_t>(place)].pieces, pair, joined);
      change_counts(place, +1);
    }
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const Pair& other : changed_)
      if (const int64_t count = counts_[other]; count > 0) queue_.emplace(count, Reversed{other});
  }

  /// Two pairs may spell the same piece.
  Piece piece_of(const std::string& text) {
    const auto [found, is_new] = ids_.try_emplace(text, static_cast<Piece>(pieces_.size()));
    if (is_new) pieces_.push_back(text);
    return found->second;
  }

  static void replace(std::vector<Piece>& pieces, Pair pair, Piece joined) {
    size_t kept = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const bool here = i + 1 < pieces.size() && pieces[i] == pair.first && pieces[i + 1] == pair.second;
      pieces[kept++] = here ? joined : pieces[i];
      if (here) ++i;
    }
    pieces.resize(kept);
  }

  std::vector<std::string>& pieces_;
  std::unordered_map<std::string, Piece> ids_;
  std::vector<Word> words_;
  std::unordered_map<Pair, int64_t, PairHash> counts_;
  std::unordered_map<Pair, std::vector<int32_t>, PairHash> places_;
  std::priority_queue<std::pair<int64_t, Reversed>> queue_;
  std::vector<Pair> changed_;
};

}  // namespace

void WordCounter::add(std::string_view text) {
  for_each_bert_word(text, [&](std::string_view word) {
    if (!is_too_long(word)) ++counts_[key_.assign(word)];
  });
}

std::vector<std::string> learn_vocabulary(const WordCounter& counter, const VocabularyOptions& options) {
  const auto size = static_cast<size_t>(std::max<int64_t>(options.size, 0));
  require(size >= kSmallestSize, [&] {
    return "learn_vocabulary: expected a size of at least " + std::to_string(kSmallestSize) + ", got " +
           std::to_string(options.size);
  });
  std::vector<std::string> pieces = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  const WordCounts words = counter.sorted();
  for (std::string& character : frequent_characters(words, options.min_character_count, size - pieces.size()))
    pieces.push_back(std::move(character));
  PairJoiner joiner(words, pieces);
  while (pieces.size() < size && joiner.join_most_frequent(options.min_pair_count)) {
  }
  return pieces;
}

}  // namespace adjoin::data
