#include "adjoin/data/tokenizer/bpe.hpp"

#include <algorithm>
#include <queue>
#include <utility>

#include "adjoin/base/utf8.hpp"

namespace adjoin::data {
namespace {

constexpr size_t kFewSymbols = 64;  // for up to this number of symbols the least rank is searched, without a heap

}  // namespace

Bpe::Bpe(BpeParts parts)
    : unit_(parts.unit),
      fallback_(parts.fallback),
      pairs_(parts.merges.size()),
      unknown_(parts.unknown),
      fuse_unknown_(parts.fuse_unknown),
      whole_words_(parts.whole_words) {
  bytes_.fill(BpeParts::kNone);
  for (const auto& [text, id] : parts.pieces) {
    const bool is_unit = text.size() == 1 || (unit_ == BpeParts::Unit::character && text.size() <= 4);
    if (text.size() == 1) bytes_[static_cast<unsigned char>(text[0])] = id;
    if (is_unit || whole_words_) pieces_.emplace(text, id);
  }
  for (size_t rank = 0; rank < parts.merges.size(); ++rank) {
    const auto& [left, right, joined] = parts.merges[rank];
    pairs_.put(left, right, {static_cast<uint32_t>(rank), joined});
  }
}

void Bpe::encode(std::string_view word, std::vector<int64_t>& ids) const {
  cache_.append(word, ids, [&] {
    const Symbols& symbols = merged(word);
    ids.insert(ids.end(), symbols.begin(), symbols.end());
  });
}

const Bpe::Symbols& Bpe::merged(std::string_view word) const {
  thread_local Symbols symbols;
  symbols.clear();
  if (const int32_t whole = whole_words_ ? piece(word) : BpeParts::kNone; whole != BpeParts::kNone) {
    symbols.push_back(whole);
    return symbols;
  }
  begin(word, symbols);
  if (symbols.size() <= kFewSymbols)
    merge_few(symbols);
  else
    merge_many(symbols);
  return symbols;
}

int32_t Bpe::piece(std::string_view text) const {
  const auto found = pieces_.find(text);
  return found == pieces_.end() ? BpeParts::kNone : found->second;
}

void Bpe::begin(std::string_view word, Symbols& symbols) const {
  bool unknown_waits = false;
  for (size_t at = 0; at < word.size();) {
    size_t length = 1;
    if (unit_ == BpeParts::Unit::character && static_cast<unsigned char>(word[at]) >= 0x80)
      length = static_cast<size_t>(std::max(decode_utf8(word, at).length, 1));
    begin_character(word.substr(at, length), symbols, unknown_waits);
    at += length;
  }
  if (unknown_waits) symbols.push_back(unknown_);
}

/// An unknown character waits for the next one, which may be unknown too; bytes do not end this wait, as in the package.
void Bpe::begin_character(std::string_view character, Symbols& symbols, bool& unknown_waits) const {
  const int32_t id = character.size() == 1 ? bytes_[static_cast<unsigned char>(character[0])] : piece(character);
  if (id != BpeParts::kNone) {
    if (unknown_waits) symbols.push_back(unknown_);
    unknown_waits = false;
    return symbols.push_back(id);
  }
  const auto byte_piece = [&](char c) { return fallback_[static_cast<unsigned char>(c)]; };
  if (std::all_of(character.begin(), character.end(), [&](char c) { return byte_piece(c) != BpeParts::kNone; })) {
    for (const char c : character) symbols.push_back(byte_piece(c));
    return;
  }
  if (unknown_ == BpeParts::kNone) return;
  if (unknown_waits && !fuse_unknown_) symbols.push_back(unknown_);
  unknown_waits = true;
}

void Bpe::merge_few(Symbols& symbols) const {
  if (symbols.size() < 2) return;
  std::array<PairTable::Joined, kFewSymbols> pairs;  // of a symbol and the next
  size_t count = symbols.size() - 1;
  for (size_t i = 0; i < count; ++i) pairs[i] = pairs_.find(symbols[i], symbols[i + 1]);
  while (count > 0) {
    const auto least =
        std::min_element(pairs.begin(), pairs.begin() + static_cast<std::ptrdiff_t>(count),
                         [](const PairTable::Joined& a, const PairTable::Joined& b) { return a.rank < b.rank; });
    if (least->rank == PairTable::kNever) break;
    const auto at = static_cast<size_t>(least - pairs.begin());
    symbols[at] = least->id;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    std::copy(least + 1, pairs.begin() + static_cast<std::ptrdiff_t>(count), least);
    --count;
    if (at > 0) pairs[at - 1] = pairs_.find(symbols[at - 1], symbols[at]);
    if (at < count) pairs[at] = pairs_.find(symbols[at], symbols[at + 1]);
  }
}

void Bpe::merge_many(Symbols& symbols) const {
  const size_t size = symbols.size();
  std::vector<size_t> next(size), before(size);
  std::vector<PairTable::Joined> pairs(size);
  using Candidate = std::pair<uint32_t, size_t>;  // rank and place; the least comes first
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto look_up = [&](size_t at) {
    pairs[at] = next[at] < size ? pairs_.find(symbols[at], symbols[next[at]]) : PairTable::Joined{};
    if (pairs[at].rank != PairTable::kNever) candidates.push({pairs[at].rank, at});
  };
  for (size_t at = 0; at < size; ++at) next[at] = at + 1, before[at] = at - 1;
  for (size_t at = 0; at < size; ++at) look_up(at);
  while (!candidates.empty()) {
    const auto [rank, at] = candidates.top();
    candidates.pop();
    if (pairs[at].rank != rank) continue;  // another merge has changed it before
    symbols[at] = pairs[at].id;
    const size_t gone = next[at];
    pairs[gone] = {};
    next[at] = next[gone];
    if (next[at] < size) before[next[at]] = at;
    look_up(at);
    if (at > 0) look_up(before[at]);
  }
  size_t kept = 0;
  for (size_t at = 0; at < size; at = next[at]) symbols[kept++] = symbols[at];
  symbols.resize(kept);
}

}  // namespace adjoin::data
