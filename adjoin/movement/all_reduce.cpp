#include "adjoin/movement/all_reduce.hpp"

#include "adjoin/movement/linear_map.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin {
namespace {

at::Tensor same(const at::Tensor& x) {
  return x;
}

at::Tensor sum(const at::Tensor& x, const Communicator& group) {
  if (group.size() == 1) return x;
  at::Tensor result = x.clone(at::MemoryFormat::Contiguous);
  group.all_reduce(as_buffer(result), Reduction::sum);
  return result;
}

}  // namespace

at::Tensor copy_to(const at::Tensor& x, const Communicator& group) {
  return apply({.forward = same, .adjoint = [=](const at::Tensor& t) { return sum(t, group); }}, x);
}

at::Tensor reduce_from(const at::Tensor& x, const Communicator& group) {
  return apply({.forward = [=](const at::Tensor& t) { return sum(t, group); }, .adjoint = same}, x);
}

at::Tensor all_sum_reduce(const at::Tensor& x, const Communicator& group) {
  const auto all_reduce = [=](const at::Tensor& t) { return sum(t, group); };
  return apply({.forward = all_reduce, .adjoint = all_reduce}, x);
}

at::Tensor all_sum_reduce(const at::Tensor& x, const Grid& grid, const std::vector<std::string>& axes) {
  return all_sum_reduce(x, grid.group(axes));
}

}  // namespace adjoin
