#include "adjoin/movement/broadcast.hpp"

#include <ATen/ops/empty.h>

#include <array>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/linear_map.hpp"
#include "adjoin/movement/tensor_message.hpp"

namespace adjoin {
namespace {

/// Who holds the originals (the cells of a small grid) and who the copies (those of a grid that extends it).
struct Plan {
  Communicator world;
  std::vector<int> original;  // the rank that holds the original of this worker's copy; none without a copy
  std::vector<int> copies;    // the ranks that hold copies of this worker's original
};

std::vector<std::string> new_axes(const char* operation, const GridShape& small, const GridShape& large) {
  const auto& a = small.axes();
  const auto& b = large.axes();
  require(a.size() == b.size(), [&] {
    return std::string(operation) + ": expected grids of the same axes, got " + std::to_string(a.size()) + " and " +
           std::to_string(b.size()) + " axes";
  });
  std::vector<std::string> result;
  for (size_t i = 0; i < a.size(); ++i) {
    require(a[i].name == b[i].name && (a[i].size == b[i].size || a[i].size == 1), [&] {
      return std::string(operation) + ": expected axis '" + b[i].name + "' of " + std::to_string(b[i].size) +
             " workers to face the same axis of as many workers or of 1, got '" + a[i].name + "' of " +
             std::to_string(a[i].size);
    });
    if (a[i].size != b[i].size) result.push_back(a[i].name);
  }
  return result;
}

Plan plan(const char* operation, const Grid& small, const Grid& large) {
  const GridShape& few = small.shape();
  const GridShape& many = large.shape();
  const auto axes = new_axes(operation, few, many);
  Plan plan{large.world(), {}, {}};
  if (large.has_me()) {
    std::vector<int> coordinates = many.coordinates(large.cell());
    for (const std::string& axis : axes) coordinates[static_cast<size_t>(many.axis_index(axis))] = 0;
    plan.original.push_back(few.rank_of(few.cell_at(coordinates)));
  }
  if (small.has_me())
    for (const int cell : many.cells_along(many.cell_at(few.coordinates(small.cell())), axes))
      plan.copies.push_back(many.rank_of(cell));
  return plan;
}

at::Tensor nothing_like(const at::Tensor& x) {
  return at::empty({0}, x.options().requires_grad(false));
}

at::Tensor copies_of_originals(const at::Tensor& x, const Plan& plan) {
  const auto received = exchange_tensors(x, plan.copies, plan.original, plan.world);
  return received.empty() ? nothing_like(x) : received[0];
}

at::Tensor sums_of_copies(const at::Tensor& x, const Plan& plan) {
  const auto received = exchange_tensors(x, plan.original, plan.copies, plan.world);
  if (received.empty()) return nothing_like(x);
  at::Tensor sum = received[0];
  for (size_t i = 1; i < received.size(); ++i) {
    require(received[i].sizes() == sum.sizes(), [&] {
      return "sum_reduce: rank " + std::to_string(plan.copies[i]) + " gave another shape than rank " +
             std::to_string(plan.copies[0]);
    });
    sum.add_(received[i]);
  }
  return sum;
}

/// Whether any worker's tensor requires a gradient: a worker without a part of it must take part in backward too.
bool any_requires_grad(const at::Tensor& x, const Communicator& world) {
  if (!at::GradMode::is_enabled()) return false;
  std::array<int32_t, 1> flag{x.requires_grad()};
  world.all_reduce(buffer(flag), Reduction::max);
  return flag[0] != 0;
}

}  // namespace

at::Tensor broadcast(const at::Tensor& x, const Grid& from, const Grid& to) {
  const Plan between = plan("broadcast", from, to);
  return apply({.forward = [=](const at::Tensor& t) { return copies_of_originals(t, between); },
                .adjoint = [=](const at::Tensor& t) { return sums_of_copies(t, between); }},
               x, any_requires_grad(x, between.world));
}

at::Tensor sum_reduce(const at::Tensor& x, const Grid& from, const Grid& to) {
  const Plan between = plan("sum_reduce", to, from);
  return apply({.forward = [=](const at::Tensor& t) { return sums_of_copies(t, between); },
                .adjoint = [=](const at::Tensor& t) { return copies_of_originals(t, between); }},
               x, any_requires_grad(x, between.world));
}

}  // namespace adjoin
