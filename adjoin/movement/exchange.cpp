#include "adjoin/movement/exchange.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

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
           (is_inside ? "shape " + shape_text(expected) : "no elements, as it is outside the grid") + ", got " +
           shape_text(x.sizes().vec()) + "; the layout is " + layout.to_string();
  });
}

Exchange::Exchange(MovePlan plan, std::vector<int64_t> shape, Communicator world)
    : plan_(std::move(plan)), shape_(std::move(shape)), strides_(shape_.size()), world_(std::move(world)) {
  int64_t stride = 1;
  for (size_t dim = shape_.size(); dim-- > 0; stride *= shape_[dim]) strides_[dim] = stride;
  if (plan_.sums)
    std::stable_sort(plan_.receives.begin(), plan_.receives.end(), [](const Piece& a, const Piece& b) {
      return std::pair(a.summand, a.peer) < std::pair(b.summand, b.peer);
    });
}

at::Tensor Exchange::operator()(const at::Tensor& x) {
  require(x.is_cpu() && x.layout() == at::kStrided && !x.is_neg(),
          [&] { return "move: expected a plain CPU tensor, got one on " + x.device().str(); });
  x_strides_.assign(x.strides().begin(), x.strides().end());
  const auto options = x.options().requires_grad(false);
  const at::Tensor y = plan_.sums ? at::zeros(shape_, options) : at::empty(shape_, options);
  plan_.sums ? sum(x, y) : place(x, y);
  return y;
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
                         .buffer = {data, volume_of(piece.sizes), type},
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
  // What stays here is in the same order among the sends and the receives.
  auto own = plan_.sends.begin();
  for (const Piece& piece : plan_.receives) {
    if (piece.peer != world_.rank()) continue;
    own = std::find_if(own, plan_.sends.end(), [&](const Piece& sent) { return sent.peer == world_.rank(); });
    copy_box(at(y, piece, strides_), piece.sizes, strides_, at(x, *own, x_strides_), own->sizes, x_strides_,
             size_of(type));
    ++own;
  }
  exchange(x, 0, [&](const Piece& piece) {
    return Message{.kind = Message::Kind::receive,
                   .peer = piece.peer,
                   .buffer = {at(y, piece, strides_), volume_of(piece.sizes), type},
                   .sizes = piece.sizes,
                   .strides = strides_};
  });
}

void Exchange::sum(const at::Tensor& x, const at::Tensor& y) {
  const bool in_float32 = is_16_bit(x.scalar_type());
  at::Tensor total = y;
  if (in_float32) total = accumulator_.take(y.numel(), y.options().dtype(at::kFloat)).zero_().view(shape_);
  for (int summand = 0; summand < plan_.summands; ++summand) {
    int64_t count = 0;
    for (const Piece& piece : plan_.receives)
      if (piece.summand == summand && piece.peer != world_.rank()) count += volume_of(piece.sizes);
    // A sum in float32 leaves the result free until its end.
    const at::Tensor boxes = in_float32 && count <= y.numel() ? y.view({-1}) : received_.take(count, x.options());
    int64_t begin = 0;
    const auto next_box = [&](const Piece& piece) {
      const at::Tensor box = boxes.narrow(0, begin, volume_of(piece.sizes));
      begin += box.numel();
      return box;
    };
    exchange(x, summand, [&](const Piece& piece) {
      return Message{.kind = Message::Kind::receive, .peer = piece.peer, .buffer = as_buffer(next_box(piece))};
    });
    begin = 0;
    auto own = plan_.sends.begin();
    for (const Piece& piece : plan_.receives) {
      if (piece.summand != summand) continue;
      if (piece.peer == world_.rank()) {
        own = std::find_if(own, plan_.sends.end(), [&](const Piece& sent) { return sent.peer == world_.rank(); });
        view_of(total, piece).add_(view_of(x.detach(), *own++));
      } else {
        view_of(total, piece).add_(next_box(piece).view(piece.sizes));
      }
    }
  }
  if (in_float32) y.copy_(total);
}

}  // namespace adjoin
