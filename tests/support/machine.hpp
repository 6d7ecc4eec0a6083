#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "tests/support/calls.hpp"

namespace adjoin::testing {

using algorithm::LocalMove;
using algorithm::Program;
using algorithm::Region;
using algorithm::Slice;
using algorithm::Step;
using algorithm::Transfer;

/// All ranks' programs of one call side by side in one thread, without a backend. Messages are synchronous; a step is
/// complete when all its transfers have met their other half.
class Machine {
 public:
  Machine(const Request& q, std::string_view algorithm) {
    for (int r = 0; r < q.size; ++r) {
      const Part part = part_of(q, r);
      Rank& rank = ranks_.emplace_back();
      rank.program = program_of(q, algorithm, r);
      rank.regions[static_cast<int>(Region::input)] = part.input;
      rank.regions[static_cast<int>(Region::output)] = part.output;
      rank.regions[static_cast<int>(Region::scratch)].resize(static_cast<size_t>(rank.program.scratch), -1);
      for (const LocalMove& move : rank.program.before) apply(rank, move);
    }
  }

  /// Expects that every send meets a receive of the same length in the same step, and that all ranks come to their end.
  void run() {
    for (size_t r = 0; r < ranks_.size(); ++r) post(static_cast<int>(r));
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < ranks_.size(); ++r)
        while (!ranks_[r].is_over() && ranks_[r].pending == 0) {
          end_step(ranks_[r]);
          post(static_cast<int>(r));
          moved = true;
        }
    }
    for (const Rank& rank : ranks_) EXPECT_TRUE(rank.is_over()) << "the ranks wait for each other";
    for (const auto& [pair, waiting] : sends_) EXPECT_TRUE(waiting.empty()) << "a send without a receive";
    for (const auto& [pair, waiting] : receives_) EXPECT_TRUE(waiting.empty()) << "a receive without a send";
  }

  const Values& output(int rank) const {
    return ranks_[static_cast<size_t>(rank)].regions[static_cast<int>(Region::output)];
  }

 private:
  struct Rank {
    Program program;
    Values regions[3];
    size_t step = 0;
    int pending = 0;                                // transfers of the step
    std::vector<std::pair<Slice, Values>> arrived;  // in it, and still to be reduced

    int64_t* at(const Slice& slice) {
      Values& region = regions[static_cast<int>(slice.region)];
      EXPECT_LE(slice.begin + slice.count, static_cast<int64_t>(region.size()));
      return region.data() + slice.begin;
    }
    bool is_over() const { return step == program.steps.size(); }
  };
  struct Posted {
    Transfer transfer;
    size_t step;
  };

  static void end_step(Rank& rank) {
    for (const auto& [slice, values] : rank.arrived) put(rank.at(slice), values.data(), slice.count, /*reduces=*/true);
    rank.arrived.clear();
    for (const LocalMove& move : rank.program.steps[rank.step].moves) apply(rank, move);
    ++rank.step;
  }

  /// What a step receives must not lie where it sends or receives something else.
  static void expect_apart(const Step& step) {
    for (const Transfer& a : step.transfers)
      for (const Transfer& b : step.transfers) {
        const Slice &x = a.slice, &y = b.slice;
        const bool overlap = x.region == y.region && x.begin < y.begin + y.count && y.begin < x.begin + x.count;
        if (&a != &b && overlap) {
          EXPECT_NE(a.kind, Transfer::Kind::receive);
        }
      }
  }

  void post(int r) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    if (rank.is_over()) return;
    expect_apart(rank.program.steps[rank.step]);
    for (const Transfer& t : rank.program.steps[rank.step].transfers) {
      ++rank.pending;
      const bool is_send = t.kind == Transfer::Kind::send;
      const auto pair = is_send ? std::pair(r, t.peer) : std::pair(t.peer, r);
      (is_send ? sends_ : receives_)[pair].push_back({t, rank.step});
      if (!sends_[pair].empty() && !receives_[pair].empty()) meet(pair);
    }
  }

  void meet(std::pair<int, int> pair) {
    const auto [send, sent_in] = sends_[pair].front();
    const auto [receive, received_in] = receives_[pair].front();
    sends_[pair].pop_front();
    receives_[pair].pop_front();
    EXPECT_EQ(send.slice.count, receive.slice.count);
    EXPECT_EQ(sent_in, received_in);
    Rank &sender = ranks_[static_cast<size_t>(pair.first)], &receiver = ranks_[static_cast<size_t>(pair.second)];
    const int64_t* from = sender.at(send.slice);
    if (receive.kind == Transfer::Kind::receive_and_reduce)
      receiver.arrived.emplace_back(receive.slice, Values(from, from + send.slice.count));
    else
      put(receiver.at(receive.slice), from, send.slice.count, /*reduces=*/false);
    --sender.pending;
    --receiver.pending;
  }

  static void apply(Rank& rank, const LocalMove& move) {
    EXPECT_EQ(move.from.count, move.to.count);
    put(rank.at(move.to), rank.at(move.from), move.to.count, /*reduces=*/false);
  }

  static void put(int64_t* to, const int64_t* from, int64_t count, bool reduces) {
    for (int64_t i = 0; i < count; ++i) to[i] = reduces ? to[i] + from[i] : from[i];
  }

  std::vector<Rank> ranks_;
  std::map<std::pair<int, int>, std::deque<Posted>> sends_, receives_;
};

}  // namespace adjoin::testing
