#include "adjoin/nn/distributed/softmax.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/softmax.h>

#include <limits>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/forward_mode.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/nn/distributed/widened.hpp"

namespace adjoin::nn {
namespace {

/// The largest number of each row. It needs no gradient, forward or backward, as subtracting any number from a whole row changes
/// nothing.
at::Tensor largest_along(const at::Tensor& given, int64_t dim, const Communicator& workers) {
  const at::NoGradGuard no_gradient;
  const at::Tensor x = primal_of(given);
  std::vector<int64_t> shape = x.sizes().vec();
  shape[static_cast<size_t>(dim)] = 1;
  at::Tensor most = x.size(dim) > 0 ? x.amax(dim, /*keepdim=*/true).contiguous()
                                    : at::full(shape, -std::numeric_limits<double>::infinity(), x.options());
  workers.all_reduce(buffer(most), Reduction::max);
  return most;
}

}  // namespace

SoftmaxAlong::SoftmaxAlong(const Layout& x, int64_t dim, const Grid& grid)
    : dim_(dim),
      is_here_(x.grid().cell_of(grid.world().rank()).has_value()),
      workers_(is_here_ ? grid.group_along(x.grid(), x.cuts()[static_cast<size_t>(dim)].axes) : Communicator()),
      is_cut_(x.split(dim).parts() > 1),
      over_dim_(x, {dim}, grid) {}

at::Tensor SoftmaxAlong::shifted(const at::Tensor& x) const {
  return is_here_ ? x - largest_along(x, dim_, workers_) : x;
}

at::Tensor SoftmaxAlong::softmax(const at::Tensor& x) const {
  if (!is_cut_) return is_here_ ? at::softmax(x, dim_) : x;
  const at::Tensor exponentials = shifted(x).exp();
  return exponentials / over_dim_.sum(exponentials);
}

at::Tensor SoftmaxAlong::log_softmax(const at::Tensor& x) const {
  if (!is_cut_) return is_here_ ? at::log_softmax(x, dim_) : x;
  const at::Tensor moved = shifted(x);
  return moved - over_dim_.sum(moved.exp()).log();
}

DistributedTensor SoftmaxBaseImpl::forward(const DistributedTensor& x) {
  prepared_.check_type(x);
  const Prepared& prepared = prepared_.of(x.layout, [this](const Layout& input) { return prepare(input); });
  at::Tensor read = widened(prepared.read(x.local));
  if (function_ == Function::softmin) read = -read;
  const at::Tensor y =
      function_ == Function::log_softmax ? prepared.along.log_softmax(read) : prepared.along.softmax(read);
  return {prepared.write(y.to(x.local.scalar_type())), prepared.write.to(), x.grid, x.step};
}

SoftmaxBaseImpl::Prepared SoftmaxBaseImpl::prepare(const Layout& input) const {
  const int64_t dim = dim_ < 0 ? dim_ + input.dims() : dim_;
  require(dim >= 0 && dim < input.dims(), [&] { return "expected an input that has dim " + std::to_string(dim_); });
  const Grid& grid = prepared_.grid();
  const Layout x = summed(input);
  return {Move(input, x, grid), SoftmaxAlong(x, dim, grid), Move(x, output_ ? output_(x.shape()) : x, grid)};
}

}  // namespace adjoin::nn
