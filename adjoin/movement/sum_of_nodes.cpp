#include "adjoin/movement/sum_of_nodes.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <numeric>

#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin {
namespace {

/// Whether a sum over the ranks in any order is that of the tree: there are two numbers to add.
bool is_plain_sum(SumTree tree, const std::vector<std::vector<Range>>& held) {
  return held.size() == 2 && std::ranges::all_of(held, [&](const auto& of) { return tree.nodes_of(of).size() == 1; });
}

}  // namespace

at::Tensor reduce_scatter_nodes(const std::vector<at::Tensor>& nodes, SumTree tree,
                                const std::vector<std::vector<Range>>& held, std::span<const int64_t> sizes,
                                const Communicator& group, const at::TensorOptions& options) {
  const auto ranks = static_cast<size_t>(group.size()), rank = static_cast<size_t>(group.rank());
  const int64_t mine = sizes[rank];
  if (is_plain_sum(tree, held)) {
    const at::Tensor sum = at::empty({mine}, nodes.front().options());
    group.reduce_scatter(buffer(nodes.front()), buffer(sum), sizes);
    return sum;
  }
  std::vector<int64_t> sent, received;
  std::vector<at::Tensor> blocks;  // for each rank its block of each node
  for (int64_t r = 0, before = 0; r < std::ssize(sizes); before += sizes[static_cast<size_t>(r++)]) {
    for (const at::Tensor& node : nodes) blocks.push_back(node.narrow(0, before, sizes[static_cast<size_t>(r)]));
    sent.push_back(std::ssize(nodes) * sizes[static_cast<size_t>(r)]);
    received.push_back(std::ssize(tree.nodes_of(held[static_cast<size_t>(r)])) * mine);
  }
  const at::Tensor out = blocks.empty() ? at::empty({0}, options) : blocks.size() == 1 ? blocks[0] : at::cat(blocks);
  const at::Tensor in = ranks == 1 ? out : at::empty({std::reduce(received.begin(), received.end())}, out.options());
  if (ranks > 1) group.all_to_all(buffer(out), sent, buffer(in), received);
  SumArrivals<at::Tensor> sums(tree, [](const at::Tensor& left, const at::Tensor& right) { return left + right; });
  int64_t before = 0;
  for (const auto& ranges : held)
    for (const Range& node : tree.nodes_of(ranges)) {
      sums.add(node, in.narrow(0, before, mine));
      before += mine;
    }
  return *sums.take({0, tree.parts});
}

at::Tensor all_reduce_nodes(const std::vector<at::Tensor>& nodes, SumTree tree,
                            const std::vector<std::vector<Range>>& held, const Communicator& group,
                            const std::vector<int64_t>& shape, const at::TensorOptions& options) {
  if (is_plain_sum(tree, held)) {
    const at::Tensor sum = nodes.front().contiguous();
    group.all_reduce(buffer(sum));
    return sum.view(shape);
  }
  std::vector<at::Tensor> flat;
  for (const at::Tensor& node : nodes) flat.push_back(node.contiguous().view({-1}));
  const std::vector<int64_t> sizes = Split::balanced(c10::multiply_integers(shape), group.size(), 0).sizes();
  const at::Tensor mine = reduce_scatter_nodes(flat, tree, held, sizes, group, options).contiguous();
  if (group.size() == 1) return mine.view(shape);
  const at::Tensor sum = at::empty(shape, options);
  group.all_gather(buffer(mine), buffer(sum), sizes);
  return sum;
}

}  // namespace adjoin
