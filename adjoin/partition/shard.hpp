#pragma once

#include "adjoin/partition/layout.hpp"

namespace adjoin {

/// Each part of a split cut further into so many, as Split::balanced cuts the indices of its piece: part p becomes the
/// parts from p * parts on.
Split refined(const Split& split, int parts);

/// The layout of shards: dim 0 is cut further, in whole rows, over the axes along which a tensor was copied, so that each
/// worker has a part of what it holds a copy of. What has no dims is the shard of the first copy.
Layout sharded(const Layout& layout);

}  // namespace adjoin
