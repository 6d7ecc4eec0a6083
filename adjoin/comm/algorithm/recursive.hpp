#pragma once

#include "adjoin/comm/algorithm/blocks.hpp"
#include "adjoin/comm/algorithm/fold.hpp"

namespace adjoin::algorithm {

/// Reduce-scatter among the participants of `fold`, whose blocks `blocks` are all in `region` on each: in each step a
/// rank sends its partner the half of what it has that the partner keeps, until it has its own block, reduced.
/// Cost: log2 of the participants steps; each sends all blocks but its own.
void add_halving(Program& program, const Fold& fold, int rank, const Blocks& blocks, Region region);

/// All-gather among the participants, each of which has its own block in `region`: in each step a rank exchanges all it
/// has with its partner.
/// Cost: log2 of the participants steps; each receives all blocks but its own.
void add_doubling(Program& program, const Fold& fold, int rank, const Blocks& blocks, Region region);

}  // namespace adjoin::algorithm
