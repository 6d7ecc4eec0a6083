#include "adjoin/nn/fixed/elementwise.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "adjoin/movement/on_threads.hpp"

namespace adjoin::nn::fixed {
namespace {

constexpr int64_t kUnit = 64;        // elements of the longest vector register of any type, and what LibTorch unrolls
constexpr int64_t kGrain = 1 << 14;  // elements for which a thread is worth its start; a multiple of kUnit

std::vector<at::Tensor> parts_of(const std::vector<at::Tensor>& tensors, const Range& part) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& tensor : tensors) parts.push_back(tensor.narrow(0, part.begin, part.size()));
  return parts;
}

}  // namespace

at::Tensor elementwise(const std::vector<at::Tensor>& inputs, const Elementwise& operation) {
  const at::Tensor& first = inputs.front();
  at::Tensor result = at::empty(first.sizes(), first.options().requires_grad(false));
  std::vector<at::Tensor> flat;
  for (const at::Tensor& input : inputs) flat.push_back(input.detach().contiguous().view({-1}));
  const at::Tensor out = result.view({-1});
  const int64_t whole = out.numel() / kUnit * kUnit, rest = out.numel() - whole;
  on_one_thread_each(whole, kGrain,
                     [&](Range part) { operation(out.narrow(0, part.begin, part.size()), parts_of(flat, part)); });
  if (rest == 0) return result;
  on_one_thread_each(1, 1, [&](Range) {
    std::vector<at::Tensor> padded;
    for (const at::Tensor& part : parts_of(flat, {whole, whole + rest})) {
      padded.push_back(at::zeros({kUnit}, part.options()));
      padded.back().narrow(0, 0, rest).copy_(part);
    }
    const at::Tensor last = at::empty({kUnit}, out.options());
    operation(last, padded);
    out.narrow(0, whole, rest).copy_(last.narrow(0, 0, rest));
  });
  return result;
}

}  // namespace adjoin::nn::fixed
