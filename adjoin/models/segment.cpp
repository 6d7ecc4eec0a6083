#include "adjoin/models/segment.hpp"

#include "adjoin/movement/fixed_order.hpp"

namespace adjoin::models {

LocalTokenRows TokenRowOptions::between_layers(const LocalTokenRows& rows, const Communicator& group) const {
  return split ? rows_of_rank(rows, group) : rows;
}

std::set<std::string> shared_parts(std::span<const Segment> segments) {
  std::set<std::string> named, shared;
  for (const Segment& segment : segments)
    for (const ModuleRecipe& part : segment.parts)
      if (!named.insert(part.name).second) shared.insert(part.name);
  return shared;
}

}  // namespace adjoin::models
