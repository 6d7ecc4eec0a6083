// Random programs of which one rank differs in one call: each ends with a diagnosis, and what ended before was right.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/launch.hpp"
#include "tests/support/failures.hpp"

namespace adjoin {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr unsigned kPrograms = 200;
#else
constexpr unsigned kPrograms = 1000;
#endif

using Values = std::vector<int32_t>;
using Counts = std::vector<int64_t>;

/// One call, as all ranks of its group make it.
struct Call {
  enum Kind {  // as Collective, and then those by messages
    barrier,
    broadcast,
    reduce,
    all_reduce,
    gather,
    scatter,
    all_gather,
    reduce_scatter,
    all_to_all,
    ring,
    exchange,
    kinds
  };
  int kind = barrier;
  int group = 0;  // of the groups that each rank has
  int root = 0;
  int64_t count = 1;
  Reduction reduction = Reduction::sum;
  ElementType type = ElementType::int32;
  int tag = 0;
  bool in_steps = false;  // by messages

  bool operator==(const Call&) const = default;
};

bool has_root_argument(const Call& call) {
  return call.kind == Call::broadcast || call.kind == Call::reduce || call.kind == Call::gather ||
         call.kind == Call::scatter;
}

bool has_reduction(const Call& call) {
  return call.kind == Call::reduce || call.kind == Call::all_reduce || call.kind == Call::reduce_scatter;
}

/// By messages that the test makes itself.
bool is_of_messages(const Call& call) {
  return call.kind == Call::ring || call.kind == Call::exchange;
}

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed), ranks_(2 + below(5)) {}

  int ranks() const { return ranks_; }
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  std::vector<Call> program() {
    std::vector<Call> calls;
    const int length = 1 + below(6);
    for (int i = 0; i < length; ++i) {
      Call call{.kind = below(Call::kinds), .group = below(2)};
      if (has_root_argument(call)) call.root = below(ranks_);
      if (has_reduction(call)) call.reduction = static_cast<Reduction>(below(4));
      if (call.kind != Call::barrier) call.count = below(4) == 0 ? 3000 : 1 + below(5);
      if (is_of_messages(call))
        call.tag = below(3);
      else
        call.in_steps = below(3) == 0;
      calls.push_back(call);
    }
    return calls;
  }

  /// What one rank does instead, which does not fit what the others do: another argument, a call more, less, or earlier.
  std::vector<Call> changed(std::vector<Call> calls) {
    const auto at = static_cast<size_t>(below(static_cast<int>(calls.size())));
    Call& call = calls[at];
    const bool has_data = call.kind != Call::barrier;
    switch (below(8)) {
      case 0:
        if (has_root_argument(call))
          call.root = (call.root + 1) % ranks_;
        else
          call.kind = (call.kind + 1) % Call::kinds;
        break;
      case 1:
        if (has_data)
          call.count += 1;
        else
          call.kind = Call::all_reduce;
        break;
      case 2:
        if (has_data)
          call.type = ElementType::float32;
        else
          call.kind = Call::broadcast;
        break;
      case 3:
        if (has_reduction(call))
          call.reduction = call.reduction == Reduction::max ? Reduction::sum : Reduction::max;
        else if (is_of_messages(call))
          call.tag += 1;
        else
          call.kind = (call.kind + 1) % Call::kinds;
        break;
      case 4:
        calls.erase(calls.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 5:
        calls.insert(calls.begin() + static_cast<std::ptrdiff_t>(at), call);
        break;
      case 6:
        std::swap(call, calls[(at + 1) % calls.size()]);
        break;
      default:
        if (!is_of_messages(call))
          call.in_steps = !call.in_steps;
        else
          call.group = 1 - call.group;
    }
    return calls;
  }

 private:
  std::mt19937 random_;
  int ranks_;
};

/// Makes a call; where all ranks make it as it was meant, its result is checked.
void make(const Call& call, const Communicator& plain, bool check) {
  const Communicator group =
      call.in_steps && !is_of_messages(call) ? plain.with_algorithm(static_cast<Collective>(call.kind), "auto") : plain;
  const int n = group.size(), me = group.rank();
  const auto all = static_cast<size_t>(n), each = static_cast<size_t>(call.count);
  const Counts counts(all, call.count);
  Values mine(each, me + 1), out(each), everything(each * all, me + 1), gathered(each * all);
  const auto as = [&](Values& values) { return Buffer{values.data(), static_cast<int64_t>(values.size()), call.type}; };
  const auto reduced = [&] {
    int32_t x = 1;
    for (int r = 1; r < n; ++r)
      x = call.reduction == Reduction::sum       ? x + r + 1
          : call.reduction == Reduction::product ? x * (r + 1)
          : call.reduction == Reduction::max     ? r + 1
                                                 : x;
    return x;
  };
  Values in_order;
  for (int r = 0; r < n; ++r) in_order.insert(in_order.end(), each, r + 1);
  const auto expect = [&](const Values& found, const Values& expected) {
    if (check) {
      ASSERT_EQ(found, expected);
    }
  };
  switch (call.kind) {
    case Call::barrier:
      return group.barrier();
    case Call::broadcast:
      group.broadcast(as(mine), call.root);
      return expect(mine, Values(each, call.root + 1));
    case Call::reduce:
      group.reduce(as(mine), as(out), call.reduction, call.root);
      return me == call.root ? expect(out, Values(each, reduced())) : void();
    case Call::all_reduce:
      group.all_reduce(as(mine), call.reduction);
      return expect(mine, Values(each, reduced()));
    case Call::gather:
      group.gather(as(mine), as(gathered), counts, call.root);
      return me == call.root ? expect(gathered, in_order) : void();
    case Call::scatter:
      group.scatter(as(everything), as(out), counts, call.root);
      return expect(out, Values(each, call.root + 1));
    case Call::all_gather:
      group.all_gather(as(mine), as(gathered), counts);
      return expect(gathered, in_order);
    case Call::reduce_scatter:
      group.reduce_scatter(as(everything), as(out), counts, call.reduction);
      return expect(out, Values(each, reduced()));
    case Call::all_to_all:
      group.all_to_all(as(everything), counts, as(gathered), counts);
      return expect(gathered, in_order);
    case Call::exchange: {  // one message to and from each rank, itself too; no ring of two ranks must fit it
      const int tag = 100 + call.tag;
      std::vector<Message> messages;
      for (int peer = 0; peer < n; ++peer) {
        messages.push_back({Message::Kind::send, peer, as(mine), tag});
        messages.push_back({Message::Kind::receive, peer, as(gathered).slice(call.count * peer, call.count), tag});
      }
      group.exchange(messages);
      return expect(gathered, in_order);
    }
    default:
      group.sendrecv(as(mine), (me + 1) % n, as(out), (me + n - 1) % n, call.tag);
      return expect(out, Values(each, (me + n - 1) % n + 1));
  }
}

TEST(RandomMismatch, ends_at_once_with_a_diagnosis_and_never_in_a_wrong_result) {
  double longest = 0;
  for (unsigned seed = 0; seed < 2 * kPrograms; ++seed) {
    Generator generator(seed);
    const std::vector<Call> meant = generator.program();
    const int culprit = generator.below(generator.ranks());
    std::vector<Call> changed = generator.changed(meant);
    while (changed == meant) changed = generator.changed(meant);

    const auto run = [&](const Communicator& world) {
      const Communicator groups[] = {world, *world.split(0, -world.rank())};
      const std::vector<Call>& calls = world.rank() == culprit ? changed : meant;
      for (const Call& call : calls) make(call, groups[call.group], world.rank() != culprit);
    };
    const auto begin = std::chrono::steady_clock::now();
    const std::string message =
        testing::failure_of<CommunicationError>(generator.ranks(), run, {.deadline = std::chrono::seconds(20)});
    longest = std::max(longest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    ASSERT_THAT(message, AnyOf(StartsWith("deadlock: these calls can never end\n"),
                               StartsWith("mismatched collectives"), StartsWith("the message of rank ")))
        << "seed " << seed;
    ASSERT_THAT(message, HasSubstr("random_mismatch_test.cpp:")) << "seed " << seed;
  }
  EXPECT_LT(longest, 1.0) << "seconds until the diagnosis";
}

}  // namespace
}  // namespace adjoin
