#pragma once

#include <optional>
#include <string>
#include <vector>

#include "adjoin/partition/layout.hpp"

namespace adjoin {

/// Throws InvalidArgument unless a tensor can be moved from one layout to the other: equal shapes; no covering split on
/// both sides; `from` split, replicated and partial, `to` split, replicated and copied, where an axis that both grids
/// have, of one size, may also be copied in both or partial in both: it stays so.
void check_move(const Layout& from, const Layout& to);

/// A box of this worker's piece that comes from or goes to a worker.
struct Piece {
  int peer = 0;                        // a rank of the world; this worker's own for what stays here
  std::vector<int64_t> offset, sizes;  // of the box within this worker's piece, in each dim
  /// Which summand it is part of: the place of its source along the axes on which `from` is partial, row-major.
  int summand = 0;
};

/// What one worker sends and receives when a tensor moves.
///
/// An element that several workers of `from` hold alike comes from one of them: from the receiver itself where that can
/// be, else from one by the receiver's place. Boxes between two workers are in the same order on both.
struct MovePlan {
  std::vector<Piece> sends, receives;
  int summands = 1;   // of each element along the partial axes that do not stay
  bool sums = false;  // elements of several boxes are added, those of none are zero
};

/// The plan of a rank of the world, found without talking to anybody.
/// Cost:   what is found, and for each box the workers that hold its values or want them
/// Throws: InvalidArgument as check_move
MovePlan plan_move(const Layout& from, const Layout& to, int rank);

/// What a move between two layouts comes to, seen as a whole.
struct MoveKind {
  enum class Way : uint8_t {
    local,           ///< each worker takes what it has already, or nothing changes
    all_reduce,      ///< partial -> replicated or copied
    all_gather,      ///< split -> replicated or copied
    reduce_scatter,  ///< partial -> split
    exchange,        ///< anything else: a message a box
  };
  Way way = Way::exchange;
  /// The dims of which each worker first takes its own part, by the cuts of `to`.
  std::vector<int64_t> taken;
  /// The axes of the collective's group, and the dim that it gathers or scatters.
  std::vector<std::string> axes;
  int64_t dim = 0;
};

/// Which collective carries a move out, if one does.
/// Throws: InvalidArgument as check_move
MoveKind kind_of_move(const Layout& from, const Layout& to);

}  // namespace adjoin
