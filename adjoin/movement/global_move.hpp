#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "adjoin/movement/move.hpp"

namespace adjoin {

/// The elements of the largest piece, or those of one index of its first dims.
double largest_piece(const Layout& layout, size_t first_dim = 0);

/// A prepared move between any two layouts on one grid, which may also change kinds in the two ways that need no message:
///
/// - copied -> another kind: all have the value already. Their gradients, which are equal then, count once: the first keeps its own,
///   and the others' are zeros.
/// - any kind -> partial: the first keeps the value, and the others' are zeros. All have the gradient already.
///
/// Each is the other's adjoint.
class GlobalMove {
 public:
  GlobalMove(const Layout& from, const Layout& to, const Grid& grid);

  at::Tensor operator()(const at::Tensor& x) const;

  /// Whether nothing changes but a kind from copied to another.
  bool only_counts_once() const { return before_ && !move_ && !after_; }

  /// Whether each worker's result has the memory of what it had.
  bool keeps_memory() const { return keeps_memory_; }

  /// The elements that a worker sends, forward and back, by which ways to run an operation are compared: a formula of the layouts.
  static double cost(const Layout& from, const Layout& to);

 private:
  struct OneCounts;
  std::optional<Move> move_;
  std::shared_ptr<const OneCounts> before_, after_;
  bool keeps_memory_ = true;
};

}  // namespace adjoin
