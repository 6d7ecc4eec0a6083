#pragma once

#include <optional>
#include <string>
#include <vector>

#include "adjoin/partition/layout.hpp"

namespace adjoin {

/// Throws InvalidArgument unless a tensor can be moved from one layout to the other. The shapes must be equal, and at
/// most one side may have a covering split. `from` may be split, replicated and partial, `to` split, replicated and
/// copied. An axis that both grids have with the same size may also be copied in both or partial in both: it stays so.
void check_move(const Layout& from, const Layout& to);

/// A box of this worker's piece that comes from or goes to a worker.
struct Piece {
  int peer = 0;                        // a rank of the world; this worker's own for a box that stays here
  std::vector<int64_t> offset, sizes;  // of the box within this worker's piece, in each dim
  /// The summand that it is part of: the row-major number of its source along the axes on which `from` is partial.
  int summand = 0;
};

/// What one worker sends and receives when a tensor moves.
///
/// An element that several workers of `from` hold alike comes from one of them: from the receiver itself where
/// possible, else from one chosen by the receiver's position. Boxes between two workers are in the same order on both.
struct MovePlan {
  std::vector<Piece> sends, receives;
  int summands = 1;   // of each element, along the partial axes that do not stay
  bool sums = false;  // elements in several boxes are added, those in none are zero
};

/// The plan of a rank of the world, computed without communication.
/// Cost:   the overlaps found, and for each box the workers that hold its values or need them
/// Throws: InvalidArgument as check_move
MovePlan plan_move(const Layout& from, const Layout& to, int rank);

/// What a move between two layouts is, over all workers.
struct MoveKind {
  enum class Way : uint8_t {
    local,           ///< each worker takes what it already has, or nothing changes
    all_reduce,      ///< partial -> replicated or copied
    all_gather,      ///< split -> replicated or copied
    reduce_scatter,  ///< partial -> split
    exchange,        ///< anything else: one message per box
  };
  Way way = Way::exchange;
  /// The dims in which each worker first takes its own part, by the cuts of `to`.
  std::vector<int64_t> taken;
  /// The axes of the collective's group, and the dim that it gathers or scatters.
  std::vector<std::string> axes;
  int64_t dim = 0;
};

/// Which collective carries out a move, if one does.
/// Throws: InvalidArgument as check_move
MoveKind kind_of_move(const Layout& from, const Layout& to);

}  // namespace adjoin
