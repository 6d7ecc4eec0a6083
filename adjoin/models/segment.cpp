#include "adjoin/models/segment.hpp"

namespace adjoin::models {

LocalRows RowOptions::between_layers(const LocalRows& rows, const Communicator& group) const {
  return split ? rows.part(group.size(), group.rank()) : rows;
}

}  // namespace adjoin::models
