#include "adjoin/movement/point_to_point.hpp"

#include <ATen/ops/empty.h>

#include <numeric>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/linear_map.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/partition/layout.hpp"

namespace adjoin {
namespace {

using Shape = std::vector<int64_t>;

at::TensorOptions plain_options(const at::Tensor& like) {
  return like.options().requires_grad(false);
}

at::Tensor sent(const at::Tensor& x, int to, const Communicator& group) {
  const at::Tensor contiguous = x.contiguous();
  group.send(buffer(contiguous), to);
  return at::empty({0}, plain_options(x));
}

at::Tensor received(const at::Tensor& like, const Shape& shape, int from, const Communicator& group) {
  const at::Tensor result = at::empty(shape, plain_options(like));
  group.recv(buffer(result), from);
  return result;
}

int modulo(int64_t a, int n) {
  return static_cast<int>((a % n + n) % n);
}

at::Tensor rotated(const at::Tensor& x, const Communicator& group, int by, const Shape& shape) {
  if (modulo(by, group.size()) == 0) return x;
  const at::Tensor contiguous = x.contiguous();
  const at::Tensor result = at::empty(shape, plain_options(x));
  group.sendrecv(buffer(contiguous), modulo(int64_t{group.rank()} + by, group.size()), buffer(result),
                 modulo(int64_t{group.rank()} - by, group.size()));
  return result;
}

void check_not_negative(const char* expected, const Shape& numbers) {
  for (const int64_t number : numbers) require(number >= 0, [&] { return expected + shape_text(numbers); });
}

Shape elements_of(const std::vector<int64_t>& rows, int64_t row) {
  Shape counts = rows;
  for (int64_t& count : counts) count *= row;
  return counts;
}

at::Tensor routed(const at::Tensor& x, const Shape& send_rows, const Shape& receive_rows, const Communicator& group) {
  Shape shape = x.sizes().vec();
  shape[0] = std::accumulate(receive_rows.begin(), receive_rows.end(), int64_t{0});
  const int64_t row = std::accumulate(shape.begin() + 1, shape.end(), int64_t{1}, std::multiplies<>());
  const at::Tensor contiguous = x.contiguous();
  const at::Tensor result = at::empty(shape, plain_options(x));
  group.all_to_all(buffer(contiguous), elements_of(send_rows, row), buffer(result), elements_of(receive_rows, row));
  return result;
}

}  // namespace

at::Tensor send(const at::Tensor& x, int to, const Communicator& group, CallSite::Where where) {
  const CallSite site(where);
  if (x.is_complex()) return on_reals(x, [&](const at::Tensor& t) { return send(t, to, group); });
  const Shape shape = x.sizes().vec();
  return apply({.forward = [=](const at::Tensor& t) { return sent(t, to, group); },
                .adjoint = [=](const at::Tensor& t) { return received(t, shape, to, group); },
                .kinds = MovedKinds{.name = "send", .group = group}},
               x);
}

at::Tensor recv(const at::Tensor& nothing, const Shape& shape, int from, const Communicator& group,
                CallSite::Where where) {
  const CallSite site(where);
  require(nothing.numel() == 0,
          "recv: expected a tensor of no elements as `nothing`, which only gives the element type");
  check_not_negative("recv: expected sizes of at least 0, got ", shape);
  if (nothing.is_complex())
    return on_reals(nothing, [&](const at::Tensor& t) { return recv(t, with_pairs(shape), from, group); });
  return apply({.forward = [=](const at::Tensor& t) { return received(t, shape, from, group); },
                .adjoint = [=](const at::Tensor& t) { return sent(t, from, group); },
                .kinds = MovedKinds{.name = "recv", .group = group}},
               nothing);
}

at::Tensor rotate(const at::Tensor& x, const Communicator& group, int by, const std::optional<Shape>& shape,
                  CallSite::Where where) {
  const CallSite site(where);
  if (x.is_complex())
    return on_reals(x, [&](const at::Tensor& t) {
      return rotate(t, group, by, shape ? std::optional(with_pairs(*shape)) : std::nullopt);
    });
  require(!shape || modulo(by, group.size()) != 0 || *shape == x.sizes(), [&] {
    return "rotate: expected the shape of x, " + shape_text(x.sizes().vec()) +
           ", because each rank keeps its own x, got " + shape_text(*shape);
  });
  return apply(
      {.forward = [=, to = shape.value_or(x.sizes().vec())](const at::Tensor& t) { return rotated(t, group, by, to); },
       .adjoint = [=, to = x.sizes().vec()](const at::Tensor& t) { return rotated(t, group, -by, to); },
       .kinds = MovedKinds{.name = "rotate", .keeps = true, .group = group}},
      x, group);
}

at::Tensor all_to_all(const at::Tensor& x, const Shape& send_rows, const Shape& receive_rows, const Communicator& group,
                      CallSite::Where where) {
  const CallSite site(where);
  if (x.is_complex())
    return on_reals(x, [&](const at::Tensor& t) { return all_to_all(t, send_rows, receive_rows, group); });
  const auto ranks = static_cast<size_t>(group.size());
  require(send_rows.size() == ranks && receive_rows.size() == ranks, [&] {
    return "all_to_all: expected send_rows and receive_rows for " + std::to_string(ranks) + " ranks, got " +
           std::to_string(send_rows.size()) + " and " + std::to_string(receive_rows.size());
  });
  check_not_negative("all_to_all: expected send_rows of at least 0, got ", send_rows);
  check_not_negative("all_to_all: expected receive_rows of at least 0, got ", receive_rows);
  const int64_t rows = std::accumulate(send_rows.begin(), send_rows.end(), int64_t{0});
  require(x.dim() >= 1 && x.size(0) == rows, [&] {
    return "all_to_all: rank " + std::to_string(group.rank()) + ": expected " + std::to_string(rows) +
           " rows in x, the sum of send_rows, got " + (x.dim() ? std::to_string(x.size(0)) : "a number");
  });
  return apply({.forward = [=](const at::Tensor& t) { return routed(t, send_rows, receive_rows, group); },
                .adjoint = [=](const at::Tensor& t) { return routed(t, receive_rows, send_rows, group); },
                .kinds = MovedKinds{.name = "all_to_all", .group = group}},
               x, group);
}

std::vector<int64_t> exchange_counts(const std::vector<int64_t>& send_rows, const Communicator& group) {
  return exchange_counts(send_rows, std::vector<int64_t>(send_rows.size(), 1), group);
}

std::vector<int64_t> exchange_counts(const std::vector<int64_t>& send_rows, const std::vector<int64_t>& numbers,
                                     const Communicator& group) {
  require(std::ssize(numbers) == group.size() &&
              std::accumulate(numbers.begin(), numbers.end(), int64_t{0}) == std::ssize(send_rows),
          [&] {
            return "exchange_counts: expected a number for each of " + std::to_string(group.size()) +
                   " ranks, with a sum of " + std::to_string(send_rows.size()) + ", got " + shape_text(numbers);
          });
  const std::vector<int64_t> mine(numbers.size(), numbers[static_cast<size_t>(group.rank())]);
  std::vector<int64_t> received(numbers.size() * static_cast<size_t>(mine.front()));
  group.all_to_all(const_buffer(send_rows), numbers, buffer(received), mine);
  return received;
}

}  // namespace adjoin
