#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "adjoin/comm/algorithm/program.hpp"

namespace adjoin::algorithm {

/// How ranks that are no power of two do what is made for one: of the first 2 * extra ranks each odd one hands its part
/// to the rank before it and gets the result from it; what lies between is the business of the others, the participants,
/// numbered by `index` in the order of ranks.
/// Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", 2005, 4.5.
class Fold {
 public:
  explicit Fold(int size);

  int participants() const { return participants_; }  // a power of two
  int extra() const { return extra_; }
  bool hands_over(int rank) const { return rank < 2 * extra_ && rank % 2 == 1; }
  bool takes_over(int rank) const { return rank < 2 * extra_ && rank % 2 == 0; }
  int index_of(int rank) const { return rank < 2 * extra_ ? rank / 2 : rank - extra_; }
  int rank_of(int index) const { return index < extra_ ? 2 * index : index + extra_; }

  /// The counts of the participants: each has its own, and those of the rank that hands over to it.
  std::vector<int64_t> merged(std::span<const int64_t> counts) const;

  /// The first step, if one is needed: `part` of a rank that hands over goes to `place`, or is reduced into it.
  void add_hand_over(Program& program, int rank, const Slice& part, Transfer::Kind kind, const Slice& place) const;
  /// The last step, if one is needed: `result` goes back to `place`.
  void add_hand_back(Program& program, int rank, const Slice& result, const Slice& place) const;

 private:
  int participants_, extra_;
};

}  // namespace adjoin::algorithm
