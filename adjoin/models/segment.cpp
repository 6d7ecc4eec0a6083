#include "adjoin/models/segment.hpp"

#include "adjoin/movement/fixed_order.hpp"

namespace adjoin::models {

LocalRows RowOptions::between_layers(const LocalRows& rows, const Communicator& group) const {
  return split ? rows_of_rank(rows, group) : rows;
}

}  // namespace adjoin::models
