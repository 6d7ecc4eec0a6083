#include "adjoin/movement/global_tensor.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/global_move.hpp"
#include "adjoin/movement/graph_node.hpp"

namespace adjoin {
namespace {

using torch::autograd::variable_list;

/// From the gradient of a global tensor, which some other graph computed, to that of its piece.
struct FromPiece final : torch::autograd::Node {
  FromPiece(Layout layout, std::shared_ptr<GlobalGrid> home) : layout(std::move(layout)), home(std::move(home)) {}
  variable_list apply(variable_list&& gradients) override {
    if (!gradients[0].defined()) return {at::Tensor()};
    return {moved(gradients[0], home->dual(layout), *home)};
  }
  Layout layout;
  std::shared_ptr<GlobalGrid> home;
};

/// From the gradient of a piece to that of the global tensor: of a leaf, or of a tensor between which and its piece a hook or a
/// function of the user stands.
struct ToPiece final : torch::autograd::Node {
  ToPiece(Layout layout, std::shared_ptr<GlobalGrid> home, const at::Tensor& piece)
      : layout(std::move(layout)), home(std::move(home)), sizes(piece.sizes().vec()), options(piece.options()) {}
  variable_list apply(variable_list&& gradients) override {
    // A worker whose operation has no elements may have no gradient where others have one.
    if (!gradients[0].defined()) gradients[0] = at::zeros(sizes, options);
    // Another tensor's gradient may have this memory: who gets this one may keep it and write to it.
    const bool is_shared = gradients[0].use_count() > 1 || gradients[0].storage().use_count() > 1;
    if (is_shared) gradients[0] = gradients[0].clone();
    return {global(gradients[0], home->dual(layout), home)};
  }
  Layout layout;
  std::shared_ptr<GlobalGrid> home;
  std::vector<int64_t> sizes;
  at::TensorOptions options;
};

void link(const at::Tensor& global, const at::Tensor& local) {
  GlobalPiece& piece = piece_of(global);
  auto node = make_node<FromPiece>(piece.layout, piece.home);
  node->add_next_edge(torch::autograd::impl::gradient_edge(local));
  const uint32_t input = node->add_input_metadata(global);
  piece.node = node.get();
  c10::TensorImpl* impl = global.unsafeGetTensorImpl();
  const auto* before = torch::autograd::impl::get_autograd_meta(global);
  const bool retains = before != nullptr && before->grad_fn_ && before->retains_grad_;
  if (retains)
    before->grad_fn_->pop_retains_grad_hook(before->output_nr_);  // as LibTorch does where a tensor is written
  impl->set_autograd_meta(std::make_unique<torch::autograd::AutogradMeta>(
      impl, /*requires_grad=*/false, torch::autograd::Edge(std::move(node), input)));
  if (retains) global.retain_grad();
}

/// The strides of a global tensor mirror those of its piece, in the order of dims, gaps and expanded dims: so is_contiguous,
/// contiguous and view say what holds for the piece.
std::vector<int64_t> strides_like(const at::Tensor& local, const std::vector<int64_t>& shape) {
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  const auto stride_of = [&](size_t dim) { return local.stride(static_cast<int64_t>(dim)); };
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return stride_of(a) > stride_of(b); });
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1, here = 1;
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    const int64_t size = local.size(static_cast<int64_t>(*dim)), stride = stride_of(*dim);
    if (stride == 0 && size > 1) continue;  // expanded
    if (stride > here && size > 1) step *= 2;
    strides[*dim] = step;
    step *= std::max<int64_t>(1, shape[*dim]);
    here = std::max(here, stride * size);
  }
  return strides;
}

/// The node from the gradient of a global tensor to that of its piece; none where a function or a hook of the user stands between.
torch::autograd::Node* node_of(const at::Tensor& global) {
  const auto* meta = torch::autograd::impl::get_autograd_meta(global);
  return meta != nullptr && meta->grad_fn_.get() == piece_of(global).node ? meta->grad_fn_.get() : nullptr;
}

/// LibTorch changes the places of the pieces in its graph by itself.
void follow_pieces(const GlobalViews& all, const at::Tensor& written) {
  const auto follow = [&](const WeakGlobal& weak) {
    const at::Tensor tensor = weak.lock();
    if (!tensor.defined() || tensor.is_same(written)) return;
    const at::Tensor& local = piece_of(tensor).local;
    if (!local.requires_grad()) return;
    const torch::autograd::Node* node = node_of(tensor);
    if (node == nullptr || !(node->next_edge(0) == torch::autograd::impl::gradient_edge(local))) link(tensor, local);
  };
  follow(all.of);
  for (const WeakGlobal& view : all.views) follow(view);
}

void check_piece(const DistributedTensor& x) {
  require(!is_global(x.local), "global: expected a plain tensor as a piece, got a global one");
  const int rank = x.grid.world().rank();
  require(x.local.sizes() == x.layout.shape_on(rank), [&] {
    return "global: expected a piece of shape " + shape_text(x.layout.shape_on(rank)) + ", got " +
           shape_text(x.local.sizes().vec()) + "; the layout is " + x.layout.to_string();
  });
}

}  // namespace

c10::intrusive_ptr<c10::BackendMeta> GlobalPiece::clone(const c10::intrusive_ptr<c10::BackendMeta>&) const {
  const c10::impl::ExcludeDispatchKeyGuard only_the_alias(kIntercepted);  // keeps a mark
  return c10::make_intrusive<GlobalPiece>(local.detach(), layout, home);
}

namespace {
thread_local GlobalGrid* drawn_for = nullptr;
}  // namespace

DrawsAlike::DrawsAlike(std::shared_ptr<GlobalGrid> home)
    : home_(std::move(home)), before_(std::exchange(drawn_for, home_.get())), all_come_to_intercept_(kIntercepted) {}
DrawsAlike::~DrawsAlike() {
  drawn_for = before_;
}
GlobalGrid* DrawsAlike::home() {
  return drawn_for;
}

void GlobalPiece::release_resources() {
  local.reset();
  home.reset();
  last_moved.reset();
  copied.reset();
  views.reset();
}

std::shared_ptr<GlobalGrid> global_grid(const Grid& grid) {
  thread_local std::vector<std::weak_ptr<GlobalGrid>> known;
  std::erase_if(known, [](const auto& other) { return other.expired(); });
  for (const auto& other : known)
    if (auto same = other.lock(); same != nullptr && same->grid.shape() == grid.shape() &&
                                  std::ranges::equal(same->grid.world().world_ranks(), grid.world().world_ranks()))
      return same;
  auto made = std::make_shared<GlobalGrid>(grid);
  known.push_back(made);
  return made;
}

Layout GlobalGrid::interned(const Layout& layout) {
  for (const Layout& known : layouts_)
    if (known == layout) return known;
  if (layouts_.size() == kKept) layouts_.clear();
  layouts_.push_back(layout);
  return layout;
}

Layout GlobalGrid::everywhere(const std::vector<int64_t>& shape) {
  if (const auto found = everywhere_.find(shape); found != everywhere_.end()) return found->second;
  if (everywhere_.size() == kKept) everywhere_.clear();
  return everywhere_.emplace(shape, interned(Layout(grid.shape(), shape))).first->second;
}

Layout GlobalGrid::dual(const Layout& layout) {
  const auto found = duals_.find(layout.id());
  if (found != duals_.end()) return found->second.second;
  if (duals_.size() == kKept) duals_.clear();
  return duals_.emplace(layout.id(), std::pair(layout, interned(layout.dual()))).first->second.second;
}

const GlobalMove& GlobalGrid::move_between(const Layout& from, const Layout& to) {
  if (moves_.size() == kKept) moves_.clear();
  const auto found = moves_.find({from.id(), to.id()});
  if (found != moves_.end()) return found->second.move;
  return moves_.emplace(std::pair(from.id(), to.id()), PreparedMove{from, to, GlobalMove(from, to, grid)})
      .first->second.move;
}

at::Tensor moved(const at::Tensor& x, const Layout& to, GlobalGrid& home, std::optional<at::ScalarType> type) {
  const auto cast = [&](const at::Tensor& t) { return type ? t.to(*type) : t; };
  // A move reads memory itself: a marked piece may have it only while an operation of LibTorch reads it.
  const auto carried = [](const GlobalMove& move, const at::Tensor& t) {
    return move(is_intercepted(t) && !move.keeps_memory() ? t.clone() : t);
  };
  if (!home.grid.has_me()) {  // no move has this worker's part; it has no elements, and stays in the graph
    if (is_global(x)) return cast(read_piece(x));
    return cast(x.requires_grad() ? x.reshape({-1}).narrow(0, 0, 0) : at::empty({0}, x.options()));
  }
  if (!is_global(x)) {
    const Layout from = home.everywhere(x.sizes().vec());
    return from == to ? cast(x) : home.move_between(from, to)(cast(x));
  }
  GlobalPiece& piece = piece_of(x);
  if (piece.layout.id() == to.id() || piece.layout == to) return cast(read_piece(x));
  const GlobalMove& move = home.move_between(piece.layout, to);
  if (x.is_leaf() && x.requires_grad())  // which keeps no move, as its memory changes by itself
    return move.only_counts_once() ? cast(read_piece(x, to)) : carried(move, cast(read_piece(x)));
  const at::Tensor here = read_piece(x);
  if (const auto& last = piece.last_moved;
      last && last->layout == to && last->from.is_same(here) && last->version == here._version() &&
      last->version_to == last->to._version() && last->to.scalar_type() == type.value_or(here.scalar_type()) &&
      (!c10::GradMode::is_enabled() || last->to.requires_grad() == here.requires_grad()))
    return last->to;
  const at::Tensor result = carried(move, cast(here));
  if (c10::GradMode::is_enabled() ||
      !here.requires_grad())  // else a move that keeps memory gives `here`, without its adjoint
    piece.last_moved = {to, here, result, here._version(), result._version()};
  return result;
}

at::Tensor global(const at::Tensor& local, const Layout& layout, std::shared_ptr<GlobalGrid> home) {
  const c10::DispatchKeySet keys = local.key_set() | c10::DispatchKeySet(kIntercepted);
  auto impl = c10::make_intrusive<c10::TensorImpl>(keys, local.dtype(), local.device());
  if (local.is_contiguous() || local.dim() != layout.dims())
    impl->set_sizes_contiguous(layout.shape());
  else
    impl->set_sizes_and_strides(layout.shape(), strides_like(local, layout.shape()));
  impl->release_storage_and_set_meta_custom_data_ptr_error_msg_(
      "this is a piece of a global tensor, which only operations of LibTorch read: nothing that takes its memory, "
      "saves it, compiles or exports it; take local_of(x).local, or whole(x)");
  impl->set_version_counter(
      local.unsafeGetTensorImpl()->version_counter());  // a write to the memory is one to all views
  impl->set_backend_meta(c10::make_intrusive<GlobalPiece>(local, layout, std::move(home)));
  at::Tensor result(std::move(impl));
  if (local.requires_grad() && c10::GradMode::is_enabled()) link(result, local);
  return result;
}

at::Tensor global(const DistributedTensor& x) {
  check_piece(x);
  const auto home = global_grid(x.grid);
  return global(x.local, home->interned(x.layout), home);
}

at::Tensor WeakGlobal::lock() const {
  const auto piece = piece_.lock();
  return piece ? at::Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(tensor_))
               : at::Tensor();
}

GlobalViews::GlobalViews(const at::Tensor& of, std::shared_ptr<int64_t> version)
    : of(of), is_of_leaf(of.is_leaf() && of.requires_grad()), version(std::move(version)) {}

void set_view(const at::Tensor& view, const at::Tensor& of, bool is_in_graph) {
  std::shared_ptr<GlobalViews>& all = piece_of(of).views;
  if (!all) all = std::make_shared<GlobalViews>(of, std::make_shared<int64_t>(piece_of(of).local._version()));
  piece_of(view).views = is_in_graph ? all : std::make_shared<GlobalViews>(view, all->version);
  if (!is_in_graph) return;
  if (all->views.size() == all->room) {
    std::erase_if(all->views, [](const WeakGlobal& weak) { return weak.expired(); });
    all->room = std::max(all->room, 2 * all->views.size());
  }
  all->views.emplace_back(view);
}

at::Tensor read_piece(const at::Tensor& global, const Layout& read) {
  GlobalPiece& piece = piece_of(global);
  require(!piece.copied || piece.copied->of.current_version() == piece.copied->version, [&] {
    return "global tensor " + piece.layout.to_string() +
           ": expected a view whose memory was not written since, as it is a copy of it here; make it after that";
  });
  const auto* meta = torch::autograd::impl::get_autograd_meta(global);
  if (meta == nullptr || !c10::GradMode::is_enabled()) return piece.local;
  const bool is_leaf = !meta->grad_fn_;
  if (is_leaf && !meta->requires_grad_) return piece.local;
  require(!piece.views || piece.views->is_of_leaf || *piece.views->version == piece.local._version(), [&] {
    return "global tensor " + piece.layout.to_string() +
           ": expected memory that operations of LibTorch alone wrote, as it has views, whose gradients would not know "
           "of what a function of the user wrote; clone it before that";
  });
  const bool is_watched = !meta->hooks_.empty() || meta->cpp_hooks_list_ != nullptr || meta->retains_grad_;
  if (!is_leaf && meta->grad_fn_.get() == piece.node && !is_watched) return piece.local;
  auto node = make_node<ToPiece>(read, piece.home, piece.local);
  node->add_next_edge(torch::autograd::impl::gradient_edge(global));
  at::Tensor alias;
  {
    const c10::impl::ExcludeDispatchKeyGuard only_the_alias(kIntercepted);  // keeps a mark
    alias = piece.local.detach();
  }
  torch::autograd::create_gradient_edge(alias, node);
  return alias;
}

DistributedTensor local_of(const at::Tensor& x) {
  require(is_global(x), "local_of: expected a global tensor, got a plain one");
  const GlobalPiece& piece = piece_of(x);
  return {read_piece(x), piece.layout, piece.home->grid, piece.home->step};
}

at::Tensor whole(const at::Tensor& x) {
  if (!is_global(x)) return x;
  const GlobalPiece& piece = piece_of(x);
  require(piece.home->grid.has_me(), [&] {
    return "whole: expected a rank of the grid " + piece.home->grid.shape().to_string() + ", got rank " +
           std::to_string(piece.home->grid.world().rank());
  });
  return moved(x, piece.home->everywhere(piece.layout.shape()), *piece.home);
}

void lay_out(at::Tensor& parameter, const DistributedTensor& piece) {
  require(parameter.sizes() == piece.layout.shape() && parameter.dtype() == piece.local.dtype(), [&] {
    return "lay_out: expected a parameter of shape " + shape_text(piece.layout.shape()) + " and type " +
           std::string(piece.local.dtype().name()) + ", got " + shape_text(parameter.sizes().vec()) + " and " +
           std::string(parameter.dtype().name());
  });
  check_piece(piece);
  const auto home = global_grid(piece.grid);
  const at::Tensor laid_out = global(piece.local.detach(), home->interned(piece.layout), home);
  if (parameter.is_privateuseone())  // whose tensors set_data refuses, as it does not know them to be dense
    parameter.unsafeGetTensorImpl()->shallow_copy_from(laid_out.getIntrusivePtr());
  else
    parameter.set_data(laid_out);
  parameter.unsafeGetTensorImpl()->set_version_counter(laid_out.unsafeGetTensorImpl()->version_counter());
}

void was_written(const at::Tensor& global, const at::Tensor& local) {
  GlobalPiece& piece = piece_of(global);
  const auto* meta = torch::autograd::impl::get_autograd_meta(global);
  if (local.requires_grad() && c10::GradMode::is_enabled()) {
    require(local.is_same(piece.local) || !piece.local.is_view() || !piece.home->grid.has_me(), [&] {
      return "global tensor " + piece.layout.to_string() +
             ": expected a view without hooks and retain_grad, as it was written in place";
    });
    piece.local = local;
    link(global, local);
    if (piece.views) follow_pieces(*piece.views, global);
  } else if (meta != nullptr && meta->grad_fn_ && !local.requires_grad()) {
    piece.local = local;  // detached
    global.unsafeGetTensorImpl()->set_autograd_meta(nullptr);
  }
  if (global._version() != local._version()) global.unsafeGetTensorImpl()->bump_version();  // they share no counter
  note_write(global);
}

void note_write(const at::Tensor& global) {
  const GlobalPiece& piece = piece_of(global);
  if (piece.views) *piece.views->version = piece.local._version();
}

bool is_trained_leaf(const at::Tensor& tensor) {
  if (!c10::GradMode::is_enabled()) return false;
  return (tensor.is_leaf() && tensor.requires_grad()) ||
         (is_global(tensor) && piece_of(tensor).views && piece_of(tensor).views->is_of_leaf);
}

}  // namespace adjoin
