#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "adjoin/comm/contract/call_site.hpp"
#include "adjoin/movement/check_gradients.hpp"
#include "adjoin/movement/linear_map.hpp"

namespace adjoin {

/// A movement of a tensor that requires no gradient.
struct UntrackedMovement {
  at::Tensor x, y;  // the input and the result
  MovedKinds kinds;
  std::optional<CallSite::Where> caller;
};

/// While it lives, this thread records for check_gradients what autograd's graph does not contain: what `recomputed` computes
/// (this holds the activations of one segment at a time in memory), movements of tensors without gradient, and the kinds that
/// layers declare for tensors that they compute. The tensors of the last two stay in memory.
class ForwardRecord {
 public:
  ForwardRecord();
  ~ForwardRecord();
  ForwardRecord(const ForwardRecord&) = delete;
  ForwardRecord& operator=(const ForwardRecord&) = delete;

  /// The innermost record of this thread; null where there is none.
  static ForwardRecord* current();

  void add(UntrackedMovement movement) { movements_.push_back(std::move(movement)); }
  void add(KnownTensor tensor) { stated_.push_back(std::move(tensor)); }
  const std::vector<UntrackedMovement>& movements() const { return movements_; }
  const std::vector<KnownTensor>& stated() const { return stated_; }

 private:
  std::vector<UntrackedMovement> movements_;
  std::vector<KnownTensor> stated_;
  ForwardRecord* outer_;
};

/// Declares the layout of a computed tensor, where a ForwardRecord lives: check_gradients then requires this layout. Returns x.
at::Tensor declared(const char* name, const at::Tensor& x, const Layout& layout, const Grid& grid);

}  // namespace adjoin
