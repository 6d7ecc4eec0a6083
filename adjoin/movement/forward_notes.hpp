#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "adjoin/comm/call_site.hpp"
#include "adjoin/movement/check_gradients.hpp"
#include "adjoin/movement/linear_map.hpp"

namespace adjoin {

/// A movement of a tensor that asks for no gradient.
struct UntrackedMovement {
  at::Tensor x, y;  // the input and the result
  MovedKinds kinds;
  std::optional<CallSite::Where> caller;
};

/// While it lives, this thread notes for check_gradients what autograd's graph does not have: what `recomputed` computes, of which
/// the activations of one segment at a time are in memory for that, movements of tensors without gradient, and what layers say of
/// the tensors that they compute, which both stay in memory.
class ForwardNotes {
 public:
  ForwardNotes();
  ~ForwardNotes();
  ForwardNotes(const ForwardNotes&) = delete;
  ForwardNotes& operator=(const ForwardNotes&) = delete;

  /// Those of this thread; null where none live.
  static ForwardNotes* current();

  void add(UntrackedMovement movement) { movements_.push_back(std::move(movement)); }
  void add(KnownTensor said) { said_.push_back(std::move(said)); }
  const std::vector<UntrackedMovement>& movements() const { return movements_; }
  const std::vector<KnownTensor>& said() const { return said_; }

 private:
  std::vector<UntrackedMovement> movements_;
  std::vector<KnownTensor> said_;
  ForwardNotes* outer_;
};

/// Says how a tensor lies that was computed, where ForwardNotes live: check_gradients is to find it so. Returns it.
at::Tensor declared(const char* name, const at::Tensor& x, const Layout& layout, const Grid& grid);

}  // namespace adjoin
