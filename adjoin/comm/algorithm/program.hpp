#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "adjoin/comm/contract/collective.hpp"

namespace adjoin::algorithm {

/// One collective call of a whole group: what the algorithms need to know about it.
///
/// Regions: broadcast and all_reduce work on `output` in place; the others go from `input` to `output` as in Communicator,
/// where each rank has its own counts of elements.
struct Request {
  Collective collective = Collective::barrier;
  int size = 1;
  int root = 0;                      // for collectives that have one
  int64_t count = 0;                 // elements of every rank: broadcast, reduce, all_reduce
  std::vector<int64_t> counts = {};  // gather, scatter, all_gather, reduce_scatter: of each rank; all_to_all: size x
                                     // size, one row per sender
  int64_t chunk = 0;                 // elements of a piece of a pipeline; 0: one piece for the whole message

  /// The rank counted from the root, and back.
  int shifted(int rank) const { return (rank - root + size) % size; }
  int actual(int shifted) const { return (shifted + root) % size; }
  /// The elements that one rank sends to another in an all_to_all.
  int64_t between(int from, int to) const {
    return counts[static_cast<size_t>(from) * static_cast<size_t>(size) + static_cast<size_t>(to)];
  }
  /// The number of pieces that a pipeline cuts the message into; 1 where the message is empty.
  int64_t pieces() const { return chunk == 0 || count == 0 ? 1 : (count + chunk - 1) / chunk; }
};

/// A request of `count` elements for collectives where all ranks have equally many, else of blocks[r] elements for rank r; in
/// an all_to_all every rank sends `blocks`.
Request request_of(Collective collective, int root, int64_t count, const std::vector<int64_t>& blocks);

/// Throws: InvalidArgument where the request is invalid (its root, counts, chunk) or has no such rank
void check(const Request& request, int rank);
[[noreturn]] void refuse(const Request& request, const std::string& expected, const std::string& came);

/// The memory of one rank that a program works on: what the caller gives, what it gets, and room for intermediate data.
enum class Region : uint8_t { input, output, scratch };

/// Elements [begin, begin + count) of a region.
struct Slice {
  Region region = Region::output;
  int64_t begin = 0;
  int64_t count = 0;
  bool operator==(const Slice&) const = default;
};

/// One message of one rank. receive_and_reduce combines the received elements with those in place when all transfers of the
/// step are complete, so the step may send the same slice. Several messages into one slice are combined in the order of their
/// ranks.
struct Transfer {
  enum class Kind : uint8_t { send, receive, receive_and_reduce };
  Kind kind = Kind::send;
  int peer = 0;
  Slice slice;
};

/// One copy within a rank. Both slices have the same count.
struct LocalMove {
  Slice from, to;
};

/// Transfers that are posted together. When all are complete, the local moves are made in order.
struct Step {
  std::vector<Transfer> transfers;
  std::vector<LocalMove> moves;
};

/// What one rank does in one operation, as data: it can be run, counted, checked, drawn and simulated.
///
/// All ranks' programs of one call have the same number of steps, and a message is sent and received in the same step; a rank
/// may have nothing to do in a step. Messages of zero elements are sent like any others, so the set of messages depends on the
/// number of ranks, the root and the number of chunks alone.
struct Program {
  int64_t scratch = 0;            // elements of scratch that the program needs
  std::vector<LocalMove> before;  // copies made before the first step
  std::vector<Step> steps;
};

inline Transfer send_to(int peer, const Slice& slice) {
  return {Transfer::Kind::send, peer, slice};
}
inline Transfer receive_from(int peer, const Slice& slice) {
  return {Transfer::Kind::receive, peer, slice};
}
inline Transfer reduce_from(int peer, const Slice& slice) {
  return {Transfer::Kind::receive_and_reduce, peer, slice};
}
inline LocalMove copy_of(const Slice& from, const Slice& to) {
  return {from, to};
}

void add_step(Program& program, std::vector<Transfer> transfers);

/// The list of local moves at the end of the program so far: that of the last step, or `before` where there is no step.
std::vector<LocalMove>& last_moves(Program& program);

/// `first` followed by `second`, which must not rely on the contents of scratch.
Program then(Program first, Program second);

/// The program backwards, from its output to its input: what was received is sent back to its source. This is the adjoint of a
/// program that reduces nothing and gives nothing to several ranks.
Program reversed(Program program);

/// The elements of all blocks.
int64_t total_of(std::span<const int64_t> counts);
/// The elements of the blocks of the ranks below `rank`.
int64_t start_of(std::span<const int64_t> counts, int rank);

/// Sizes of `parts` nearly equal blocks of `count` elements; the first count % parts have one more.
std::vector<int64_t> balanced_counts(int64_t count, int parts);

/// Where the block of each rank begins; the blocks follow one another.
class Blocks {
 public:
  explicit Blocks(std::span<const int64_t> counts);

  int size() const { return static_cast<int>(starts_.size()) - 1; }
  int64_t total() const { return starts_.back(); }

  /// The number of elements of `n` blocks from `first` on.
  int64_t count(int first, int n = 1) const { return start(first + n) - start(first); }
  /// The same where the first block follows the last one again; `first` is at least 0, and `n` at most the number of blocks.
  int64_t count_around(int first, int n) const;

  Slice at(Region region, int first, int n = 1) const { return {region, start(first), count(first, n)}; }
  /// Block `i` modulo size(): -1 is the last one, and size() the first again.
  Slice around(Region region, int i) const { return at(region, (i % size() + size()) % size()); }
  Slice all(Region region) const { return {region, 0, total()}; }

 private:
  int64_t start(int i) const { return starts_[static_cast<size_t>(i)]; }

  std::vector<int64_t> starts_;  // of each block; the last one is the end
};

}  // namespace adjoin::algorithm
