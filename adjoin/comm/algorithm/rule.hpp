#pragma once

#include <cstdint>
#include <string_view>

#include "adjoin/comm/collective.hpp"

namespace adjoin::algorithm {

/// The algorithm that the rule table takes for `bytes` on `size` ranks: of the whole message, or of all blocks together
/// where each rank has one. Every rank must know them, so an all_to_all's are not looked at.
std::string_view choose(Collective collective, int size, int64_t bytes);

/// The elements of a piece with which a pipeline of `size` ranks is quickest; at least one.
int64_t chunk_for(int size, int64_t count, int64_t bytes_per_element);

}  // namespace adjoin::algorithm
