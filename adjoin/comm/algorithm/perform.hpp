#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "adjoin/base/not_copied.hpp"
#include "adjoin/comm/algorithm/program.hpp"
#include "adjoin/comm/contract/backend.hpp"

namespace adjoin::algorithm {

/// Stands for the algorithm that choose() selects.
inline constexpr std::string_view kAuto = "auto";
/// Reductions in which every element is reduce_all_into of all ranks' elements in rank order, so that each backend gives the
/// same bits. It is not in the catalogue, where no algorithm does so for every reduction.
inline constexpr std::string_view kRankOrder = "rank_order";

/// A program as this rank's part of a collective, which goes on whenever its messages have ended. They have kCollectiveTag. The
/// two operands of a reduction are combined in the order of their ranks; 16-bit floats are rounded after each step that reduces.
class Run : NotCopied {
 public:
  /// What `call` points to must live as long.
  Run(Program program, const Call& call);

  /// Called first, and each time that messages() have ended: does what follows them. True where there are messages again, to be
  /// exchanged together; false where the collective has ended.
  bool go_on();
  std::span<const Message> messages() const { return messages_; }
  const Call& call() const { return call_; }

 private:
  Buffer at(const Slice& slice) const;
  void perform(std::span<const LocalMove> moves) const;
  void begin_step(const Step& step);
  void end_step(const Step& step) const;
  void reduce_arrived(const Step& step) const;

  const Program program_;
  const Call call_;
  const std::unique_ptr<char[]> room_;  // scratch, and after it what a step receives before it reduces it
  size_t next_ = 0;                     // step
  std::vector<Message> messages_;       // of the step before
};

/// Runs `program` with Backend::exchange.
void run(Program program, Backend& backend, const Call& call);

/// Sets the call's algorithm to the one that choose() selects for its collective, and the chunk where it has none.
void choose_for(Call& call);

/// Carries out a collective on `backend` by messages alone, with exchange. call.algorithm is a name in the catalogue, or "" for
/// the algorithm that choose() selects; kRankOrder calls other collectives of the backend instead. Every rank of the group
/// calls it alike. In an all_to_all a rank knows its own counts only: Bruck's algorithm first gathers the counts of all ranks,
/// P numbers each, by Bruck's all-gather.
/// Throws: CommunicationError where in Bruck's all_to_all a rank sends another count than this one expects
void perform(const Call& call, Backend& backend);

/// The program that perform() runs; none where it does more than run one.
std::unique_ptr<Run> begin(const Call& call, Backend& backend);

}  // namespace adjoin::algorithm
