#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "adjoin/comm/communicator.hpp"

namespace adjoin::parallel {

/// Lets ranks carry out collectives in one order, although each comes to them by itself, and may come to others than its peers.
///
/// All ranks have one list of events, each a collective. A rank that wants an event takes part in those before it in the list too,
/// whether it needs them or not. What is no longer in the list it asks for in a round: all others are in that round when they are
/// at the end of theirs. At the end of a phase all ranks take the longest of their own sequences as the next list. So where all
/// ranks come to the same events in the same order, nothing is carried out twice or in vain, and otherwise all get what they want.
class SharedOrder {
 public:
  /// How an event is carried out. Events below `only_offered` are wanted, the others only offered.
  struct Events {
    int64_t only_offered = 0, count = 0;
    /// As a collective of all ranks; `is_wanted` says whether this rank needs its result.
    std::function<void(int64_t event, bool is_wanted)> carry_out;
    /// For each rank an event that it wants, or a negative number: called by all ranks.
    std::function<void(const std::vector<int64_t>& of_ranks)> serve = {};
  };

  /// `list` is the first list; it has all events that are only offered.
  SharedOrder(Communicator group, std::vector<int64_t> list, Events events);

  /// Returns when the event was carried out for this rank.
  void want(int64_t event);
  /// That this rank has all that the event needs: it is carried out as soon as all others before it are.
  void offer(int64_t event);
  /// The end of a phase, called by all ranks: carries out what is left, and what other ranks still want.
  void end();
  /// Begins a phase again, after one that failed on all ranks.
  void begin_again();

 private:
  void carry_out_next(int64_t wanted);
  void carry_out_rest();
  bool round(int64_t wanted);
  bool is_part_of_list() const;
  void take_longest(const std::vector<int64_t>& lengths);

  Communicator group_;
  std::vector<int64_t> list_, reached_;
  std::vector<bool> is_offered_;
  Events events_;
  size_t next_ = 0;  // the place in the list of the next event
  int64_t length_;   // of the sequence from which the list was made
};

}  // namespace adjoin::parallel
