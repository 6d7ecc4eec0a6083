#include "adjoin/movement/exchange.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "adjoin/base/box.hpp"
#include "adjoin/base/error.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin {
namespace {

int64_t volume_of(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

int64_t place_of(const Piece& piece, const std::vector<int64_t>& strides) {
  return std::inner_product(piece.offset.begin(), piece.offset.end(), strides.begin(), int64_t{0});
}

at::Tensor view_of(const at::Tensor& tensor, const Piece& piece) {
  return tensor.as_strided(piece.sizes, tensor.strides(),
                           tensor.storage_offset() + place_of(piece, tensor.strides().vec()));
}

bool overlap(const Piece& a, const Piece& b) {
  for (size_t dim = 0; dim < a.sizes.size(); ++dim)
    if (std::max(a.offset[dim], b.offset[dim]) >= std::min(a.offset[dim] + a.sizes[dim], b.offset[dim] + b.sizes[dim]))
      return false;
  return true;
}

/// Whether a rank's own piece covers the result, and no two other pieces overlap: a sum of two does not depend on their order.
bool adds_to_own(const std::vector<Piece>& receives, const std::vector<int64_t>& shape, int rank) {
  constexpr size_t kMost = 64;  // more than the neighbours in three dims
  if (receives.size() > kMost) return false;
  std::vector<Piece> own, others;
  for (const Piece& piece : receives) (piece.peer == rank ? own : others).push_back(piece);
  if (own.size() != 1 || own[0].sizes != shape) return false;
  for (size_t i = 0; i < others.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (overlap(others[i], others[j])) return false;
  return true;
}

bool is_16_bit(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16;
}

}  // namespace

void check_piece(const char* operation, const at::Tensor& x, const Layout& layout, int rank) {
  const std::vector<int64_t> expected = layout.shape_on(rank);
  const bool is_inside = layout.grid().cell_of(rank).has_value();
  require(x.layout() == at::kStrided,
          [&] { return std::string(operation) + ": rank " + std::to_string(rank) + ": expected a dense tensor"; });
  require(is_inside ? x.sizes() == at::IntArrayRef(expected) : x.numel() == 0, [&] {
    return std::string(operation) + ": rank " + std::to_string(rank) + ": expected a tensor of " +
           (is_inside ? "shape " + shape_text(expected) : "no elements, because this rank is outside the grid") +
           ", got " + shape_text(x.sizes().vec()) + "; the layout is " + layout.to_string();
  });
}

Exchange::Exchange(MovePlan plan, std::vector<int64_t> shape, Communicator world)
    : plan_(std::move(plan)), shape_(std::move(shape)), world_(std::move(world)) {
  if (!plan_.sums) return;
  std::stable_sort(plan_.receives.begin(), plan_.receives.end(), [](const Piece& a, const Piece& b) {
    return std::pair(a.summand, a.peer) < std::pair(b.summand, b.peer);
  });
  begins_with_own_ = adds_to_own(plan_.receives, shape_, world_.rank());
}

at::Tensor Exchange::operator()(const at::Tensor& x) {
  const at::Tensor y = at::empty(shape_, x.options().requires_grad(false));
  into(x, y);
  return y;
}

void Exchange::into(const at::Tensor& x, const at::Tensor& y) {
  check_plain("move", x);
  check_plain("move", y);
  x_strides_.assign(x.strides().begin(), x.strides().end());
  y_strides_.assign(y.strides().begin(), y.strides().end());
  plan_.sums ? sum(x, y) : place(x, y);
}

template <class Receive>
void Exchange::exchange(const at::Tensor& x, int summand, const Receive& receive) {
  const ElementType type = element_type(x.scalar_type());
  const int me = world_.rank();
  messages_.clear();
  for (const Piece& piece : plan_.receives)
    if (piece.summand == summand && piece.peer != me) messages_.push_back(receive(piece));
  for (const Piece& piece : plan_.sends) {
    if (piece.summand != summand || piece.peer == me) continue;
    char* data = static_cast<char*>(x.data_ptr()) + place_of(piece, x_strides_) * size_of(type);
    messages_.push_back({.kind = Message::Kind::send,
                         .peer = piece.peer,
                         .buffer = {data, volume_of(piece.sizes), type, buffer_device(x)},
                         .sizes = piece.sizes,
                         .strides = x_strides_});
  }
  if (!messages_.empty()) world_.exchange(messages_);
}

void Exchange::place(const at::Tensor& x, const at::Tensor& y) {
  const ElementType type = element_type(x.scalar_type());
  const auto at = [&](const at::Tensor& tensor, const Piece& piece, const std::vector<int64_t>& strides) {
    return static_cast<char*>(tensor.data_ptr()) + place_of(piece, strides) * size_of(type);
  };
  // What stays here is in the same order in the sends and in the receives.
  auto own = plan_.sends.begin();
  for (const Piece& piece : plan_.receives) {
    if (piece.peer != world_.rank()) continue;
    own = std::find_if(own, plan_.sends.end(), [&](const Piece& sent) { return sent.peer == world_.rank(); });
    if (x_strides_ == y_strides_ && at(y, piece, y_strides_) == at(x, *own, x_strides_)) {
      // it is there already
    } else if (x.is_cpu()) {
      copy_box(at(y, piece, y_strides_), piece.sizes, y_strides_, at(x, *own, x_strides_), own->sizes, x_strides_,
               size_of(type));
    } else {
      view_of(y, piece).copy_(view_of(x.detach(), *own));
    }
    ++own;
  }
  exchange(x, 0, [&](const Piece& piece) {
    return Message{.kind = Message::Kind::receive,
                   .peer = piece.peer,
                   .buffer = {at(y, piece, y_strides_), volume_of(piece.sizes), type, buffer_device(y)},
                   .sizes = piece.sizes,
                   .strides = y_strides_};
  });
}

void Exchange::sum(const at::Tensor& x, const at::Tensor& y) {
  const bool in_float32 = is_16_bit(x.scalar_type());
  const at::Tensor total = in_float32 ? at::empty(shape_, y.options().dtype(at::kFloat)) : y;
  const auto own_piece = [&](const Piece& piece) { return piece.peer == world_.rank(); };
  if (begins_with_own_)
    total.copy_(view_of(x.detach(), *std::ranges::find_if(plan_.sends, own_piece)));
  else
    total.zero_();
  for (int summand = 0; summand < plan_.summands; ++summand) {
    int64_t count = 0;
    for (const Piece& piece : plan_.receives)
      if (piece.summand == summand && piece.peer != world_.rank()) count += volume_of(piece.sizes);
    // A sum in float32 does not use the result's memory until the end.
    const bool is_free = in_float32 && count <= y.numel() && y.is_contiguous();
    const at::Tensor boxes = is_free ? y.view({-1}) : at::empty({count}, x.options().requires_grad(false));
    int64_t begin = 0;
    const auto next_box = [&](const Piece& piece) {
      const at::Tensor box = boxes.narrow(0, begin, volume_of(piece.sizes));
      begin += box.numel();
      return box;
    };
    exchange(x, summand, [&](const Piece& piece) {
      return Message{.kind = Message::Kind::receive, .peer = piece.peer, .buffer = buffer(next_box(piece))};
    });
    begin = 0;
    auto own = plan_.sends.begin();
    for (const Piece& piece : plan_.receives) {
      if (piece.summand != summand) continue;
      if (own_piece(piece)) {
        own = std::find_if(own, plan_.sends.end(), own_piece);
        if (!begins_with_own_) view_of(total, piece).add_(view_of(x.detach(), *own));
        ++own;
      } else {
        view_of(total, piece).add_(next_box(piece).view(piece.sizes));
      }
    }
  }
  if (in_float32) y.copy_(total);
}

}  // namespace adjoin
