#pragma once

#include <optional>
#include <string>
#include <vector>

#include "adjoin/movement/linear_map.hpp"

namespace adjoin::testing {

/// How a test makes one movement of a program a wrong one.
enum class Change : uint8_t { skip, twice, swap };
const char* name(Change change);

/// The movements that have the same shapes as one of this name, in whose place each may stand by mistake.
std::vector<std::string> of_the_same_shapes(const std::string& movement);

/// A movement as it was changed: left out, applied to its own result, or `other` in its place.
/// Throws: what the movement throws where its own result is not of a shape that it takes
at::Tensor changed(Change change, const std::string& other, const LinearMap& map, const at::Tensor& x,
                   const Communicator& workers);

}  // namespace adjoin::testing
