#include "adjoin/comm/threads/call.hpp"

#include <algorithm>

namespace adjoin::threads {

namespace {

bool has_reduction(Collective c) {
  return c == Collective::reduce || c == Collective::all_reduce || c == Collective::reduce_scatter;
}

std::string list_of_counts(std::span<const int64_t> counts) {
  std::string text;
  for (const int64_t count : counts) text += (text.empty() ? "" : ", ") + std::to_string(count);
  return "{" + text + "}";
}

bool same_counts(std::span<const int64_t> a, std::span<const int64_t> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

bool agree(const Call& a, const Call& b) {
  if (!(a.signature == b.signature)) return false;
  return !a.counts ||
         (same_counts(a.counts->send, b.counts->send) && same_counts(a.counts->receive, b.counts->receive));
}

/// The first of the calls that most ranks made.
size_t most_common(std::span<const Call* const> calls) {
  size_t best = 0;
  int best_votes = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    int votes = 0;
    for (const Call* other : calls) votes += agree(*calls[i], *other);
    if (votes > best_votes) best = i, best_votes = votes;
  }
  return best;
}

}  // namespace

std::string_view name(Collective collective) {
  constexpr std::string_view names[] = {"barrier", "broadcast",  "reduce",         "all_reduce", "gather",
                                        "scatter", "all_gather", "reduce_scatter", "all_to_all"};
  return names[static_cast<int>(collective)];
}

uint64_t hash_of(std::span<const int64_t> counts) {
  uint64_t hash = counts.size();
  for (const int64_t count : counts) {
    hash = (hash ^ static_cast<uint64_t>(count)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

std::string describe(const std::source_location& where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}

std::string describe(const Call& call) {
  const Signature& s = call.signature;
  std::string text(name(s.collective));
  if (s.collective != Collective::barrier) {
    text += " (";
    if (s.root >= 0) text += "root " + std::to_string(s.root) + ", ";
    if (has_reduction(s.collective)) text += std::string(name(s.reduction)) + ", ";
    text += std::string(name(s.type));
    if (s.collective == Collective::all_to_all)
      text += ", sends " + list_of_counts(call.counts->send) + ", receives " + list_of_counts(call.counts->receive);
    else
      text += " x " + (call.counts ? list_of_counts(call.counts->send) : std::to_string(s.count));
    text += ")";
  }
  return text + " at " + describe(call.where);
}

std::string list_of(std::span<const int> ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return "{" + text + "}";
}

std::string describe_mismatch(std::span<const Call* const> calls, std::span<const int> ranks, uint64_t sequence) {
  const size_t common = most_common(calls);
  std::string text = "collective #" + std::to_string(sequence) + " on group " + list_of(ranks) + " differs: ";
  size_t differ = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (agree(*calls[i], *calls[common])) continue;
    text += "rank " + std::to_string(ranks[i]) + " called " + describe(*calls[i]) + ", ";
    ++differ;
  }
  const bool others = calls.size() - differ > 1;
  return text + (others ? "the others " : "rank " + std::to_string(ranks[common]) + " ") + describe(*calls[common]);
}

}  // namespace adjoin::threads
