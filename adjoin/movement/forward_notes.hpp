#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "adjoin/comm/call_site.hpp"
#include "adjoin/movement/linear_map.hpp"

namespace adjoin {

/// A movement of a tensor that asks for no gradient.
struct UntrackedMovement {
  at::Tensor x, y;  // the input and the result
  MovedKinds kinds;
  std::optional<CallSite::Where> caller;
};

/// While it lives, this thread notes for check_gradients what autograd's graph does not have: what `recomputed` computes, of which
/// the activations of one segment at a time are in memory for that, and movements of tensors without gradient, which stay in memory.
class ForwardNotes {
 public:
  ForwardNotes();
  ~ForwardNotes();
  ForwardNotes(const ForwardNotes&) = delete;
  ForwardNotes& operator=(const ForwardNotes&) = delete;

  /// Those of this thread; null where none live.
  static ForwardNotes* current();

  void add(UntrackedMovement movement) { movements_.push_back(std::move(movement)); }
  const std::vector<UntrackedMovement>& movements() const { return movements_; }

 private:
  std::vector<UntrackedMovement> movements_;
  ForwardNotes* outer_;
};

}  // namespace adjoin
