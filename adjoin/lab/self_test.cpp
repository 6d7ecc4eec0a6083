#include "adjoin/lab/self_test.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/lab/exercise.hpp"

namespace adjoin {

namespace {

using lab::Elements;
using lab::Exercise;

/// One operation that is tried on one rank: with which elements, and the first failure.
class Trial {
 public:
  explicit Trial(const Communicator& g) : group(g), rank(g.rank()), size(g.size()) {}

  const Communicator& group;
  const int rank, size;
  ElementType type = ElementType::float32;
  int64_t count = 0;
  int place_of_zero = 0;  // among three ranks; it moves on, so that every rank once has elements and once none
  std::string failure;

  /// Numbers that differ between seeds.
  Elements pattern(int64_t elements, int seed) const {
    lab::Values values;
    for (int64_t i = 0; i < elements; ++i) values.push_back(number_at(Exercise::Numbers::small, seed, i));
    return {type, values};
  }
  /// A number that is in no pattern.
  Elements unset(int64_t elements) const { return {type, lab::Values(static_cast<size_t>(elements), -1)}; }

  int64_t uneven_count(int r) const {
    constexpr int64_t kHalves[] = {0, 1, 2};
    return (count * kHalves[(r + place_of_zero) % 3] + 1) / 2;  // none, half of them rounded up, or all
  }

  void expect(const Elements& expected, const Elements& got, const std::string& where = "", double tolerance = 0) {
    if (failure.empty()) failure = difference(expected, got, where, tolerance);
  }
  void expect(bool condition, const std::string& otherwise) {
    if (failure.empty() && !condition) failure = otherwise;
  }
};

std::string from(int rank) {
  return "from rank " + std::to_string(rank);
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

/// No rank may leave before the last one has come. The others send a message to the late rank before they enter, so the time
/// that they measure is at least as long as the late rank waits.
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
             "expected to wait 20 ms for rank " + std::to_string(late) + ", but the barrier returned after " +
                 std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(waited).count()) + " ms");
  }
}

void make_call(const Communicator& group, const Exercise& e, const Elements& in, Elements& out) {
  const CollectiveKind& kind = kind_of(e.collective);
  std::vector<int64_t> sent, received;  // in an all_to_all
  for (int peer = 0; peer < group.size(); ++peer) {
    sent.push_back(e.between(group.rank(), peer));
    received.push_back(e.between(peer, group.rank()));
  }
  Call call{.collective = e.collective, .in = in.buffer(), .out = out.buffer(), .where = Where::current()};
  call.reduction = e.reduction;
  if (kind.is_in_place) call.in = call.out;
  if (has_root(e.collective)) call.root = e.root;
  if (kind.gives != kind.gets) {
    call.counts = e.blocks;
  } else if (has_blocks(e.collective)) {
    call.counts = sent;
    call.receive_counts = received;
  }
  group.carry_out(std::move(call));
}

/// Tries every reduction, each with another root; collectives without reduction with the first and the last rank as the root.
void try_collective(Trial& t, Collective collective) {
  Exercise e{
      .collective = collective, .count = t.count, .turn = 2, .type = t.type, .numbers = Exercise::Numbers::small};
  for (int r = 0; r < t.size; ++r) e.blocks.push_back(t.uneven_count(r));
  const auto attempt = [&](const std::string& where) {
    const Elements in = input_of(e, t.rank);
    Elements out = output_before(e, t.rank);
    make_call(t.group, e, in, out);
    t.expect(output_after(e, t.rank), out, where, e.reduction == Reduction::average ? 0.01 : 0);  // it is rounded
  };
  const auto root = [&] { return has_root(collective) ? "root " + std::to_string(e.root) : ""; };
  if (has_reduction(collective)) {
    for (int i = 0; i < kReductions; ++i) {
      e.reduction = static_cast<Reduction>(i), e.root = i % t.size;
      const std::string what(name(e.reduction));
      if (is_defined(e.reduction, t.type)) attempt(what + (has_root(collective) ? ", " : "") + root());
    }
  } else {
    for (const int r : {0, t.size - 1})
      if (e.root = r; r == 0 || has_root(collective)) attempt(root());
  }
}

/// Checks that a group has the given ranks of `t.group`, in that order.
void expect_members(Trial& t, const Communicator& group, const std::vector<int32_t>& members) {
  const auto place = std::find(members.begin(), members.end(), t.rank) - members.begin();
  t.expect(group.size() == static_cast<int>(members.size()) && group.rank() == static_cast<int>(place),
           "expected to be rank " + std::to_string(place) + " of " + std::to_string(members.size()) + ", got rank " +
               std::to_string(group.rank()) + " of " + std::to_string(group.size()));
  const int32_t mine[] = {t.rank};
  std::vector<int32_t> all(static_cast<size_t>(group.size()), -1);
  group.all_gather(const_buffer(mine), buffer(all), std::vector<int64_t>(all.size(), 1));
  const auto numbers = [](const std::vector<int32_t>& ranks) {
    return Elements(ElementType::int32, lab::Values(ranks.begin(), ranks.end()));
  };
  t.expect(numbers(members), numbers(all), "ranks of the members");
}

/// The ranks with the same remainder modulo `step` as this one, the last one first.
std::vector<int32_t> every(int step, const Trial& t) {
  std::vector<int32_t> ranks;
  for (int r = t.size - 1; r >= 0; --r)
    if (r % step == t.rank % step) ranks.push_back(r);
  return ranks;
}

/// Tries groups of all ranks, and of every second rank, the last one first.
void try_split(Trial& t) {
  for (const int step : {1, 2}) {
    const auto group = t.group.split(/*color=*/t.rank % step, /*key=*/-t.rank);
    t.expect(group.has_value(), "expected a group, got none");
    if (group) expect_members(t, *group, every(step, t));
  }
  const bool leaves = t.rank == t.size - 1;
  const auto others = t.group.split(leaves ? -1 : 0, 0);
  t.expect(others.has_value() != leaves, "expected no group for a negative color, and a group for all other colors");
}

void try_subset(Trial& t) {
  if (t.rank % 2 == 0) expect_members(t, t.group.subset(every(2, t)), every(2, t));
  std::vector<int32_t> turned;
  for (int r = 0; r < t.size; ++r) turned.push_back((r + 1) % t.size);
  expect_members(t, t.group.subset(turned), turned);
}

struct Attempt {
  std::string_view operation;
  std::function<void(Trial&)> run;
  bool has_elements = true;
};

std::vector<Attempt> all_attempts() {
  std::vector<Attempt> attempts = {{"send", try_send},
                                   {"recv", try_recv},
                                   {"sendrecv", try_sendrecv},
                                   {"exchange", try_exchange},
                                   {"barrier", try_barrier, false}};
  for (int i = 0; i < kCollectives; ++i)
    if (const auto c = static_cast<Collective>(i); c != Collective::barrier)
      attempts.push_back({name(c), [c](Trial& t) { try_collective(t, c); }});
  attempts.push_back({"split", try_split, false});
  attempts.push_back({"subset", try_subset, false});
  return attempts;
}

/// What was wrong with an operation on this rank; "" where nothing was.
std::string failure_of(const Attempt& attempt, const Communicator& group) {
  Trial trial(group);
  const auto run_with = [&](ElementType type, int64_t count) {
    trial.type = type, trial.count = count, trial.place_of_zero = (trial.place_of_zero + 1) % 3;
    attempt.run(trial);
  };
  if (attempt.has_elements) {
    for (int type = 0; type < kElementTypes; ++type)
      for (const int64_t count : {0, 1, 7, 1000}) run_with(static_cast<ElementType>(type), count);
    run_with(ElementType::float32, std::max(1000, 300'000 / group.size()));  // not a small message to a network
  } else {
    attempt.run(trial);
  }
  return trial.failure.empty() ? "" : "rank " + std::to_string(trial.rank) + ": " + trial.failure;
}

/// Rank 0 receives the failures of the others. The texts have a fixed length, so that a group that alters messages can corrupt
/// the words but not stop the report.
void collect(const Communicator& group, std::vector<SelfTestResult>& results) {
  constexpr size_t kTextBytes = 160;
  std::vector<uint8_t> texts(results.size() * kTextBytes);
  const auto text = [&](size_t i) { return reinterpret_cast<char*>(texts.data()) + i * kTextBytes; };
  if (group.rank() != 0) {
    for (size_t i = 0; i < results.size(); ++i) results[i].failure.copy(text(i), kTextBytes - 1);
    return group.send(buffer(texts), 0);
  }
  for (int peer = 1; peer < group.size(); ++peer) {
    group.recv(buffer(texts), peer);
    for (size_t i = 0; i < results.size(); ++i)
      if (results[i].ok()) results[i].failure.assign(text(i), strnlen(text(i), kTextBytes));
  }
}

}  // namespace

std::vector<SelfTestResult> self_test(const Communicator& group,
                                      const std::function<void(std::string_view operation)>& begins) {
  std::vector<SelfTestResult> results;
  for (const Attempt& attempt : all_attempts()) {
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
