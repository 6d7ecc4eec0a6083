#include "adjoin/lab/self_test.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

#include "adjoin/base/error.hpp"
#include "adjoin/lab/self_test_elements.hpp"

namespace adjoin {

namespace {

using self_test_detail::Elements;

/// One operation being tried on one rank: with which elements, and what was wrong first.
class Trial {
 public:
  explicit Trial(const Communicator& g) : group(g), rank(g.rank()), size(g.size()) {}

  const Communicator& group;
  const int rank, size;
  ElementType type = ElementType::float32;
  int64_t count = 0;
  int place_of_zero = 0;  // among three ranks: one after the other, so that every rank has elements and none
  std::string failure;

  Elements pattern(int64_t elements, int seed) const { return Elements::pattern(type, elements, seed); }
  Elements unset(int64_t elements) const { return Elements::unset(type, elements); }

  /// Counts that differ from rank to rank, some of them zero.
  std::vector<int64_t> uneven_counts() const {
    std::vector<int64_t> counts(static_cast<size_t>(size));
    for (int r = 0; r < size; ++r) counts[static_cast<size_t>(r)] = uneven_count(r);
    return counts;
  }
  int64_t uneven_count(int r) const {
    constexpr int64_t kHalves[] = {0, 1, 2};
    return (count * kHalves[(r + place_of_zero) % 3] + 1) / 2;  // none, half of them rounded up, all
  }

  /// The patterns of all ranks in rank order, as many elements of each as uneven_counts says.
  Elements all_patterns() const {
    Elements all = unset(0);
    for (int r = 0; r < size; ++r) all.append(pattern(uneven_count(r), r));
    return all;
  }

  std::vector<Reduction> reductions() const {
    std::vector<Reduction> defined;
    for (int r = 0; r < kReductions; ++r)
      if (is_defined(static_cast<Reduction>(r), type)) defined.push_back(static_cast<Reduction>(r));
    return defined;
  }

  void expect(const Elements& expected, const Elements& got, const std::string& where = "", double tolerance = 0) {
    if (failure.empty()) failure = expected.difference(got, where, tolerance);
  }
  /// The same for the result of a reduction: an average may be rounded.
  void expect(const Elements& expected, const Elements& got, Reduction reduction, const std::string& where = "") {
    expect(expected, got, std::string(name(reduction)) + where, reduction == Reduction::average ? 0.01 : 0);
  }
  void expect(bool condition, const std::string& otherwise) {
    if (failure.empty() && !condition) failure = otherwise;
  }
};

int64_t total(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

std::string from(int rank) {
  return "from rank " + std::to_string(rank);
}
std::string with_root(int root) {
  return "root " + std::to_string(root);
}

void try_send(Trial& t) {  // from rank to rank
  if (t.rank > 0) {
    Elements got = t.unset(t.count);
    t.group.recv(got.buffer(), t.rank - 1);
    t.expect(t.pattern(t.count, t.rank - 1), got, from(t.rank - 1));
  }
  if (t.rank + 1 < t.size) t.group.send(t.pattern(t.count, t.rank).buffer(), t.rank + 1);
}

void try_recv(Trial& t) {  // rank 0 from all others, the last one first
  if (t.rank > 0) return t.group.send(t.pattern(t.uneven_count(t.rank), t.rank).buffer(), 0, /*tag=*/t.rank % 5);
  for (int peer = t.size - 1; peer > 0; --peer) {
    Elements got = t.unset(t.uneven_count(peer));
    t.group.recv(got.buffer(), peer, /*tag=*/peer % 5);
    t.expect(t.pattern(t.uneven_count(peer), peer), got, from(peer));
  }
}

void try_sendrecv(Trial& t) {  // around a ring
  const int right = (t.rank + 1) % t.size, left = (t.rank + t.size - 1) % t.size;
  Elements sent = t.pattern(t.uneven_count(t.rank), t.rank), got = t.unset(t.uneven_count(left));
  t.group.sendrecv(sent.buffer(), right, got.buffer(), left);
  t.expect(t.pattern(t.uneven_count(left), left), got, from(left));
}

void try_exchange(Trial& t) {  // with the ranks 1, 2, 4, … places away, all at once
  std::vector<Elements> sent, got;
  std::vector<int> sources;
  std::vector<Message> messages;
  for (int away = 1; away < t.size; away *= 2) {
    sources.push_back((t.rank + t.size - away) % t.size);
    sent.push_back(t.pattern(t.count, t.rank + away));
    got.push_back(t.unset(t.count));
    messages.push_back({Message::Kind::send, (t.rank + away) % t.size, sent.back().buffer(), /*tag=*/away % 1000});
    messages.push_back({Message::Kind::receive, sources.back(), got.back().buffer(), /*tag=*/away % 1000});
  }
  t.group.exchange(messages);
  for (size_t i = 0; i < sources.size(); ++i)
    t.expect(t.pattern(t.count, sources[i] + (1 << i)), got[i], from(sources[i]));
}

/// Nobody may leave before the last one has come. The others tell the late one before they enter, so what they measure
/// is at least what it waits.
void try_barrier(Trial& t) {
  constexpr std::chrono::milliseconds kLate(20);
  int32_t token[] = {1};
  for (const int late : {0, t.size - 1}) {
    const auto begin = std::chrono::steady_clock::now();
    if (t.rank == late) {
      for (int peer = 0; peer < t.size; ++peer)
        if (peer != late) t.group.recv(buffer(token), peer);
      std::this_thread::sleep_for(kLate);
    } else {
      t.group.send(buffer(token), late);
    }
    t.group.barrier();
    const auto waited = std::chrono::steady_clock::now() - begin;
    t.expect(waited >= kLate,
             "expected to wait 20 ms for rank " + std::to_string(late) + ", got away after " +
                 std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(waited).count()));
  }
}

void try_broadcast(Trial& t) {
  for (const int root : {0, t.size - 1}) {
    Elements elements = t.rank == root ? t.pattern(t.count, root) : t.unset(t.count);
    t.group.broadcast(elements.buffer(), root);
    t.expect(t.pattern(t.count, root), elements, with_root(root));
  }
}

void try_reduce(Trial& t) {
  for (const Reduction reduction : t.reductions()) {
    const int root = static_cast<int>(reduction) % t.size;
    const Elements in = Elements::part(t.type, t.count, reduction, t.rank, t.size);
    Elements out = t.unset(t.count);
    t.group.reduce(in.buffer(), out.buffer(), reduction, root);
    if (t.rank == root)
      t.expect(Elements::reduced(t.type, t.count, reduction, t.size), out, reduction, ", " + with_root(root));
  }
}

void try_all_reduce(Trial& t) {
  for (const Reduction reduction : t.reductions()) {
    Elements elements = Elements::part(t.type, t.count, reduction, t.rank, t.size);
    t.group.all_reduce(elements.buffer(), reduction);
    t.expect(Elements::reduced(t.type, t.count, reduction, t.size), elements, reduction);
  }
}

void try_gather(Trial& t) {
  const auto counts = t.uneven_counts();
  for (const int root : {0, t.size - 1}) {
    Elements out = t.unset(t.rank == root ? total(counts) : 0);
    t.group.gather(t.pattern(t.uneven_count(t.rank), t.rank).buffer(), out.buffer(), counts, root);
    if (t.rank == root) t.expect(t.all_patterns(), out, with_root(root));
  }
}

void try_scatter(Trial& t) {
  for (const int root : {0, t.size - 1}) {
    Elements out = t.unset(t.uneven_count(t.rank));
    const Elements in = t.rank == root ? t.all_patterns() : t.unset(0);
    t.group.scatter(in.buffer(), out.buffer(), t.uneven_counts(), root);
    t.expect(t.pattern(t.uneven_count(t.rank), t.rank), out, with_root(root));
  }
}

void try_all_gather(Trial& t) {
  const auto counts = t.uneven_counts();
  Elements out = t.unset(total(counts));
  t.group.all_gather(t.pattern(t.uneven_count(t.rank), t.rank).buffer(), out.buffer(), counts);
  t.expect(t.all_patterns(), out);
}

void try_reduce_scatter(Trial& t) {
  const auto counts = t.uneven_counts();
  const int64_t begin = std::accumulate(counts.begin(), counts.begin() + t.rank, int64_t{0});
  for (const Reduction reduction : t.reductions()) {
    Elements out = t.unset(t.uneven_count(t.rank));
    t.group.reduce_scatter(Elements::part(t.type, total(counts), reduction, t.rank, t.size).buffer(), out.buffer(),
                           counts, reduction);
    const Elements all = Elements::reduced(t.type, total(counts), reduction, t.size);
    t.expect(all.slice(begin, t.uneven_count(t.rank)), out, reduction);
  }
}

void try_all_to_all(Trial& t) {
  const auto count = [&](int source, int target) { return t.uneven_count(source + 2 * target); };
  Elements in = t.unset(0), expected = t.unset(0);
  std::vector<int64_t> sent, received;
  for (int peer = 0; peer < t.size; ++peer) {
    in.append(t.pattern(sent.emplace_back(count(t.rank, peer)), t.rank + 3 * peer));
    expected.append(t.pattern(received.emplace_back(count(peer, t.rank)), peer + 3 * t.rank));
  }
  Elements out = t.unset(total(received));
  t.group.all_to_all(in.buffer(), sent, out.buffer(), received);
  t.expect(expected, out);
}

/// That a group has the given ranks of `t.group`, in that order.
void expect_members(Trial& t, const Communicator& group, const std::vector<int>& members) {
  const auto place = std::find(members.begin(), members.end(), t.rank) - members.begin();
  t.expect(group.size() == static_cast<int>(members.size()) && group.rank() == static_cast<int>(place),
           "expected to be rank " + std::to_string(place) + " of " + std::to_string(members.size()) + ", got rank " +
               std::to_string(group.rank()) + " of " + std::to_string(group.size()));
  Elements mine = Elements::unset(ElementType::int32, 1), expected = Elements::unset(ElementType::int32, 0);
  mine.set(0, t.rank);
  for (const int member : members) {
    Elements one = Elements::unset(ElementType::int32, 1);
    one.set(0, member);
    expected.append(one);
  }
  Elements all = Elements::unset(ElementType::int32, group.size());
  group.all_gather(mine.buffer(), all.buffer(), std::vector<int64_t>(static_cast<size_t>(group.size()), 1));
  t.expect(expected, all, "ranks of the members");
}

/// Every second rank: those of this one's parity, the last one first.
std::vector<int> peers_of_parity(const Trial& t) {
  std::vector<int> peers;
  for (int r = t.size - 1; r >= 0; --r)
    if (r % 2 == t.rank % 2) peers.push_back(r);
  return peers;
}

/// That ranks with this color make a group, the last one first.
void expect_split(Trial& t, int color, const std::vector<int>& members) {
  const auto group = t.group.split(color, /*key=*/-t.rank);
  t.expect(group.has_value(), "expected a group, got none");
  if (group) expect_members(t, *group, members);
}

void try_split(Trial& t) {
  std::vector<int> last_first;
  for (int r = t.size - 1; r >= 0; --r) last_first.push_back(r);
  expect_split(t, /*color=*/0, last_first);
  expect_split(t, /*color=*/t.rank % 2, peers_of_parity(t));
  const bool leaves = t.rank == t.size - 1;
  const auto others = t.group.split(leaves ? -1 : 0, 0);
  t.expect(others.has_value() != leaves, "expected no group for a negative color alone");
}

void try_subset(Trial& t) {
  if (t.rank % 2 == 0) expect_members(t, t.group.subset(peers_of_parity(t)), peers_of_parity(t));
  std::vector<int> turned(static_cast<size_t>(t.size));
  for (int r = 0; r < t.size; ++r) turned[static_cast<size_t>(r)] = (r + 1) % t.size;
  expect_members(t, t.group.subset(turned), turned);
}

struct Attempt {
  std::string_view operation;
  void (*run)(Trial&);
  bool has_elements = true;
};

constexpr Attempt kAttempts[] = {
    {"send", try_send},
    {"recv", try_recv},
    {"sendrecv", try_sendrecv},
    {"exchange", try_exchange},
    {"barrier", try_barrier, false},
    {"broadcast", try_broadcast},
    {"reduce", try_reduce},
    {"all_reduce", try_all_reduce},
    {"gather", try_gather},
    {"scatter", try_scatter},
    {"all_gather", try_all_gather},
    {"reduce_scatter", try_reduce_scatter},
    {"all_to_all", try_all_to_all},
    {"split", try_split, false},
    {"subset", try_subset, false},
};

/// What was wrong with an operation on this rank; "" for nothing.
std::string failure_of(const Attempt& attempt, const Communicator& group) {
  Trial trial(group);
  const auto run_with = [&](ElementType type, int64_t count) {
    trial.type = type, trial.count = count, trial.place_of_zero = (trial.place_of_zero + 1) % 3;
    attempt.run(trial);
  };
  if (attempt.has_elements) {
    for (int type = 0; type < kElementTypes; ++type)
      for (const int64_t count : {0, 1, 7, 1000}) run_with(static_cast<ElementType>(type), count);
    run_with(ElementType::float32, std::max(1000, 300'000 / group.size()));  // no longer a small message to a network
  } else {
    attempt.run(trial);
  }
  return trial.failure.empty() ? "" : "rank " + std::to_string(trial.rank) + ": " + trial.failure;
}

constexpr size_t kTextBytes = 160;

/// Rank 0 takes the failures of the others. Of a fixed length, so that a group which alters messages can spoil the words
/// but not stop the report.
void collect(const Communicator& group, std::vector<SelfTestResult>& results) {
  const size_t peers = static_cast<size_t>(group.rank() == 0 ? group.size() - 1 : 0);
  std::vector<std::vector<uint8_t>> texts(std::max<size_t>(peers, 1));
  for (auto& text : texts) text.resize(results.size() * kTextBytes);
  std::vector<Message> messages;
  for (size_t peer = 1; peer <= peers; ++peer)
    messages.push_back({Message::Kind::receive, static_cast<int>(peer), buffer(texts[peer - 1]), 0});
  if (group.rank() != 0) {
    for (size_t i = 0; i < results.size(); ++i)
      results[i].failure.copy(reinterpret_cast<char*>(texts[0].data()) + i * kTextBytes, kTextBytes - 1);
    messages.push_back({Message::Kind::send, 0, buffer(texts[0]), 0});
  }
  group.exchange(messages);
  for (size_t peer = 1; peer <= peers; ++peer)
    for (size_t i = 0; i < results.size(); ++i) {
      const auto* text = reinterpret_cast<const char*>(texts[peer - 1].data()) + i * kTextBytes;
      if (results[i].ok()) results[i].failure.assign(text, strnlen(text, kTextBytes));
    }
}

}  // namespace

std::vector<SelfTestResult> self_test(const Communicator& group,
                                      const std::function<void(std::string_view operation)>& begins) {
  std::vector<SelfTestResult> results;
  for (const Attempt& attempt : kAttempts) {
    if (begins) begins(attempt.operation);
    try {
      results.push_back({std::string(attempt.operation), failure_of(attempt, group)});
    } catch (const Error& error) {
      throw CommunicationError("self-test of " + std::string(attempt.operation) + ": " + error.what());
    }
  }
  if (begins) begins("the collection of results");
  collect(group, results);
  return results;
}

}  // namespace adjoin
