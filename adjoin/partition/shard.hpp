#pragma once

#include "adjoin/partition/layout.hpp"

namespace adjoin {

/// Cuts each part of a split into `parts` parts, as Split::balanced cuts the indices of its piece: part p becomes the parts
/// from p * parts on.
Split refined(const Split& split, int parts);

/// The layout of shards: dim 0 is cut further, in whole rows, over the axes along which a tensor was copied, so that each
/// worker has a part of what it held a copy of. A tensor without dims is the shard of the first copy.
Layout sharded(const Layout& layout);

}  // namespace adjoin
