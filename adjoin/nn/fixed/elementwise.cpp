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

void in_registers(const std::vector<at::Tensor>& flat, size_t written,
                  const std::function<void(const std::vector<at::Tensor>& some)>& work) {
  const int64_t all = flat.front().numel(), rest = all % kUnit;
  if (all > rest) work(parts_of(flat, {0, all - rest}));
  if (rest == 0) return;
  const std::vector<at::Tensor> last = parts_of(flat, {all - rest, all});
  std::vector<at::Tensor> padded;
  for (const at::Tensor& part : last) {
    padded.push_back(at::zeros({kUnit}, part.options()));
    padded.back().narrow(0, 0, rest).copy_(part);
  }
  work(padded);
  for (size_t i = 0; i < written; ++i) last[i].copy_(padded[i].narrow(0, 0, rest));
}

at::Tensor elementwise(const std::vector<at::Tensor>& inputs, const Elementwise& operation) {
  at::Tensor result = at::empty(inputs.front().sizes(), inputs.front().options().requires_grad(false));
  std::vector<at::Tensor> flat{result.view({-1})};
  for (const at::Tensor& input : inputs) flat.push_back(input.detach().contiguous().view({-1}));
  in_registers(flat, 1, [&](const std::vector<at::Tensor>& some) {
    on_one_thread_each(some[0].numel(), kGrain, [&](Range piece) {
      std::vector<at::Tensor> parts = parts_of(some, piece);
      const at::Tensor out = parts[0];
      parts.erase(parts.begin());
      operation(out, parts);
    });
  });
  return result;
}

}  // namespace adjoin::nn::fixed
