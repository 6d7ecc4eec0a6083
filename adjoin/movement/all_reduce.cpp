#include "adjoin/movement/all_reduce.hpp"

#include <ATen/core/grad_mode.h>

#include "adjoin/movement/linear_map.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin {
namespace {

at::Tensor same(const at::Tensor& x) {
  return x;
}

std::function<at::Tensor(const at::Tensor&)> sum_over(const Communicator& group) {
  return [=](const at::Tensor& t) { return sum(t, group); };
}

MovedKinds moved(const char* name, Kind from, Kind to, const Communicator& group) {
  return {.name = name, .from = from, .to = to, .group = group};
}

at::Tensor applied(LinearMap map, const at::Tensor& x, const Communicator& group) {
  return on_reals(x, [&](const at::Tensor& t) { return apply(std::move(map), t, group); });
}

}  // namespace

at::Tensor sum(const at::Tensor& x, const Communicator& group) {
  if (group.size() == 1) return x;
  const at::NoGradGuard no_gradient;
  const c10::AutoFwGradMode no_tangent(false);
  const at::Tensor result = plain("sum", x).clone(at::MemoryFormat::Contiguous);
  group.all_reduce(buffer_of_reals(result), Reduction::sum);
  return result;
}

at::Tensor copy_to(const at::Tensor& x, const Communicator& group, CallSite::Where where) {
  const CallSite site(where);
  return applied(
      {.forward = same, .adjoint = sum_over(group), .kinds = moved("copy_to", Kind::replicated, Kind::copied, group)},
      x, group);
}

at::Tensor reduce_from(const at::Tensor& x, const Communicator& group, CallSite::Where where) {
  const CallSite site(where);
  return applied({.forward = sum_over(group),
                  .adjoint = same,
                  .kinds = moved("reduce_from", Kind::partial, Kind::replicated, group)},
                 x, group);
}

at::Tensor all_sum_reduce(const at::Tensor& x, const Communicator& group, CallSite::Where where) {
  const CallSite site(where);
  return applied({.forward = sum_over(group),
                  .adjoint = sum_over(group),
                  .kinds = moved("all_sum_reduce", Kind::partial, Kind::copied, group)},
                 x, group);
}

at::Tensor all_sum_reduce(const at::Tensor& x, const Grid& grid, const std::vector<std::string>& axes,
                          CallSite::Where where) {
  return all_sum_reduce(x, grid.group(axes), where);
}

}  // namespace adjoin
