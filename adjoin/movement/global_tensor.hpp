#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <any>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/not_copied.hpp"
#include "adjoin/movement/distributed_tensor.hpp"
#include "adjoin/movement/global_move.hpp"
#include "adjoin/movement/intercept.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/partition/layout.hpp"

namespace torch::autograd {
struct Node;
}

namespace adjoin {

// A global tensor is an at::Tensor whose sizes are those of the whole and whose memory is this worker's piece; its layout says where
// the rest is. LibTorch gives each operation on it to a rule (rules), which runs it on the pieces and moves what must move. So
// code that was written for one worker runs on any layout, and its gradients are global tensors too.
//
// What reads memory past the operations of LibTorch is refused: data_ptr, accessors, storage, torch::save, printing.

/// A distributed tensor as a global one. Differentiable; of no further cost.
at::Tensor global(const DistributedTensor& x);

/// What a global tensor stands for. Differentiable. Throws: InvalidArgument for a plain tensor
DistributedTensor local_of(const at::Tensor& x);

/// A plain tensor with all elements, on every worker of the grid; a plain tensor as it is. Differentiable.
/// Throws: InvalidArgument on a rank outside x's grid, which has no elements of it
/// Cost:   a move from x's layout
at::Tensor whole(const at::Tensor& x);

/// A parameter or a buffer of a module becomes the global tensor of which `piece` is this worker's piece, in place: the module's
/// members and all other handles follow. It stays a leaf, and keeps whether it requires a gradient.
/// Throws: InvalidArgument where the shape or the type differs, or `piece` is not a plain piece of the layout
void lay_out(at::Tensor& parameter, const DistributedTensor& piece);

/// What this worker knows of all global tensors on one grid, which share it.
class GlobalGrid {
 public:
  explicit GlobalGrid(Grid grid)
      : grid(std::move(grid)), rank(this->grid.has_me() ? this->grid.world().rank() : this->grid.shape().rank_of(0)) {}

  /// The layout, so that equal layouts have equal ids.
  Layout interned(const Layout& layout);
  /// The move between two layouts, prepared at its first use.
  const GlobalMove& move_between(const Layout& from, const Layout& to);
  /// The layout of the gradients of tensors of a layout.
  Layout dual(const Layout& layout);
  /// The layout of a tensor that all workers have.
  Layout everywhere(const std::vector<int64_t>& shape);

  const Grid grid;
  const int rank;  ///< this one; outside the grid, that of its first cell, as which rules then see this worker
  std::optional<Step> step = {};  ///< of random operations, which are refused without one
  int64_t drawn = 0;              ///< random operations since the step began
  bool draws_again = false;       ///< whether what backward computes again continues from the count of the forward pass
  bool strict = false;            ///< whether an operation without a rule is refused
  std::set<std::string> gathered;  ///< operations without a rule that were told
  std::any prepared;               ///< what rules keeps; nothing in it holds a global tensor

 private:
  static constexpr size_t kKept = 4096;
  // What has the ids of layouts as keys keeps these layouts, so that no other layout gets an id meanwhile.
  std::vector<Layout> layouts_;
  std::map<std::vector<int64_t>, Layout> everywhere_;
  std::map<const void*, std::pair<Layout, Layout>> duals_;
  struct PreparedMove {
    Layout from, to;
    GlobalMove move;
  };
  std::map<std::pair<const void*, const void*>, PreparedMove> moves_;
};

/// While it lives, operations of this thread that draw on plain tensors (at::rand) draw the same on all workers of a grid: by the
/// step and the number of random operations since it began.
class DrawsAlike : NotCopied {
 public:
  explicit DrawsAlike(std::shared_ptr<GlobalGrid> home);
  ~DrawsAlike();

  /// The grid of the innermost one; nullptr without any.
  static GlobalGrid* home();

 private:
  std::shared_ptr<GlobalGrid> home_;
  GlobalGrid* const before_;
  c10::impl::IncludeDispatchKeyGuard all_come_to_intercept_;
};

/// While it lives, random operations draw what they drew from this count on.
class DrawsAgain : NotCopied {
 public:
  DrawsAgain(std::shared_ptr<GlobalGrid> home, int64_t drawn)
      : home_(std::move(home)), drawn_(home_->drawn), draws_again_(home_->draws_again), alike_(home_) {
    home_->drawn = drawn;
    home_->draws_again = true;
  }
  ~DrawsAgain() {
    home_->drawn = drawn_;
    home_->draws_again = draws_again_;
  }

 private:
  std::shared_ptr<GlobalGrid> home_;
  const int64_t drawn_;
  const bool draws_again_;
  const DrawsAlike alike_;
};

/// The one of this thread for a grid; made by the first global tensor on it, and gone with the last.
std::shared_ptr<GlobalGrid> global_grid(const Grid& grid);

/// A global tensor as long as something else has it. Not by a weak pointer to the tensor, as LibTorch would then keep its piece.
class WeakGlobal {
 public:
  explicit WeakGlobal(const at::Tensor& global)
      : piece_(global.unsafeGetTensorImpl()->get_backend_meta_intrusive_ptr()), tensor_(global.unsafeGetTensorImpl()) {}
  bool expired() const { return piece_.expired(); }
  /// Undefined if it is gone.
  at::Tensor lock() const;

 private:
  c10::weak_intrusive_ptr<c10::BackendMeta> piece_;  // which only the tensor has
  c10::TensorImpl* tensor_;
};

/// A global tensor and its views: a write to one of them changes the place of all in autograd's graph.
struct GlobalViews {
  GlobalViews(const at::Tensor& of, std::shared_ptr<int64_t> version);

  WeakGlobal of;
  const bool is_of_leaf;  ///< that is trained: none is written while gradients are recorded
  std::vector<WeakGlobal> views = {};
  size_t room = 8;                         ///< of `views`; where it is full, those that are gone leave
  const std::shared_ptr<int64_t> version;  ///< of the memory after the last write by an operation
};

/// What a global tensor has in the place of memory.
struct GlobalPiece final : c10::BackendMeta {
  GlobalPiece(at::Tensor local, Layout layout, std::shared_ptr<GlobalGrid> home)
      : local(std::move(local)), layout(std::move(layout)), home(std::move(home)) {}
  /// For `.data()` and set_data.
  c10::intrusive_ptr<c10::BackendMeta> clone(const c10::intrusive_ptr<c10::BackendMeta>& self) const override;
  /// The tensor is gone, while its views know this piece.
  void release_resources() override;

  at::Tensor local;
  Layout layout;
  std::shared_ptr<GlobalGrid> home;
  const torch::autograd::Node* node = nullptr;  // which leads from the global tensor's gradient to that of `local`
  /// What `local` was last moved to. So several operations that read it alike cost one move each way.
  struct Moved {
    Layout layout;
    at::Tensor from, to;
    int64_t version, version_to;
  };
  std::optional<Moved> last_moved;
  /// The memory of which LibTorch would make this a view, while here it is a copy, as elements had to move; and its version then.
  struct Copied {
    c10::VariableVersion of;
    uint32_t version;
  };
  std::optional<Copied> copied;
  /// With the tensor of which this is a view and its other views, if there are any.
  std::shared_ptr<GlobalViews> views;
};

/// The piece of a tensor that is_global.
inline GlobalPiece& piece_of(const at::Tensor& global) {
  return *static_cast<GlobalPiece*>(global.unsafeGetTensorImpl()->get_backend_meta());
}

/// A new global tensor. If `local` requires a gradient, the result leads to it.
at::Tensor global(const at::Tensor& local, const Layout& layout, std::shared_ptr<GlobalGrid> home);

/// Says that a tensor has the memory of another: as a view of it in autograd's graph, or outside (detach).
void set_view(const at::Tensor& view, const at::Tensor& of, bool is_in_graph);

/// The tensor that an operation computes with, in autograd's graph: of the layout `read`, which differs from x's own at most in
/// replicated instead of copied, and only for a leaf.
at::Tensor read_piece(const at::Tensor& global, const Layout& read);
inline at::Tensor read_piece(const at::Tensor& global) {
  return read_piece(global, piece_of(global).layout);
}

/// After an operation has written to the piece of `global`: its gradient leads to the result's, and those of its views lead there too.
void was_written(const at::Tensor& global, const at::Tensor& local);

/// Says that an operation may have written to the memory of `global`, after which its views may be read.
void note_write(const at::Tensor& global);

/// The piece of a tensor in another layout, an interned one: of a global tensor, or of a plain one, which all workers have; first cast,
/// if a type is given. Differentiable.
at::Tensor moved(const at::Tensor& x, const Layout& to, GlobalGrid& home, std::optional<at::ScalarType> type = {});

/// Whether a tensor is a leaf that requires a gradient, or a view of one, and so must not be written while gradients are recorded.
bool is_trained_leaf(const at::Tensor& tensor);

}  // namespace adjoin
