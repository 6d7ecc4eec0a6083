#include "tests/support/changed_movements.hpp"

#include <ATen/ATen.h>

#include "adjoin/movement/all_reduce.hpp"

namespace adjoin::testing {
namespace {

/// What of `whole` lies where `owners`, the ranks from 1 on, is this rank.
at::Tensor own(const at::Tensor& whole, const at::Tensor& owners, const Communicator& group, const at::Tensor& like) {
  return whole.masked_select(owners == group.rank() + 1).view(like.sizes());
}

LinearMap swapped(const std::string& other, const LinearMap& map, const at::Tensor& x) {
  const Communicator group = map.kinds->group;
  const auto mark = [&](const at::Tensor& block) { return at::full(block.sizes(), group.rank() + 1, block.options()); };
  MovedKinds kinds{.name = "swapped", .group = group};
  if (other == "all_gather") {
    kinds.to = Kind::copied;
    return {map.forward, [=](const at::Tensor& t) { return map.adjoint(sum(t, group)); }, kinds};
  }
  if (other == "reduce_scatter") {
    kinds.from = Kind::partial;
    return {[=](const at::Tensor& t) { return map.forward(sum(t, group)); }, map.adjoint, kinds};
  }
  if (other == "gather_from") {
    const at::Tensor like = x.detach(), owners = map.forward(mark(like));
    kinds.to = Kind::replicated;
    return {map.forward, [=](const at::Tensor& t) { return own(t, owners, group, like); }, kinds};
  }
  const at::Tensor like = map.forward(x.detach()), owners = map.adjoint(mark(like));  // scatter_to
  kinds.from = Kind::replicated;
  return {[=](const at::Tensor& t) { return own(t, owners, group, like); }, map.adjoint, kinds};
}

}  // namespace

const char* name(Change change) {
  return change == Change::skip ? "skip" : change == Change::twice ? "twice" : "swap";
}

std::vector<std::string> of_the_same_shapes(const std::string& movement) {
  for (const std::vector<std::string>& alike : {std::vector<std::string>{"copy_to", "reduce_from", "all_sum_reduce"},
                                                std::vector<std::string>{"gather_from", "all_gather"},
                                                std::vector<std::string>{"scatter_to", "reduce_scatter"}}) {
    if (std::ranges::find(alike, movement) == alike.end()) continue;
    std::vector<std::string> others = alike;
    std::erase(others, movement);
    return others;
  }
  return {};
}

at::Tensor changed(Change change, const std::string& other, const LinearMap& map, const at::Tensor& x,
                   const Communicator& workers) {
  if (change == Change::skip) return x;
  if (change == Change::twice) return apply(map, apply(map, x, workers), workers);
  const Communicator& group = map.kinds->group;
  if (other == "copy_to") return copy_to(x, group);
  if (other == "reduce_from") return reduce_from(x, group);
  if (other == "all_sum_reduce") return all_sum_reduce(x, group);
  return apply(swapped(other, map, x), x, workers);
}

}  // namespace adjoin::testing
