// LibTorch's flash attention on the simulated device, as its comment and its kernels for GPUs describe it: packed rows [rows, heads, size] of
// 16-bit numbers, and int32 ends of samples.

#include <ATen/ATen.h>
#include <torch/library.h>

#include <atomic>
#include <limits>
#include <tuple>
#include <vector>

#include "tests/support/simulated_device/simulated_device.hpp"

namespace adjoin::testing {
namespace {

using Stack = torch::jit::Stack;

std::atomic<int64_t> calls = 0;

/// What both directions get, on the host.
struct Call {
  /// Takes arguments from `first` on: q, k, v; and from `second` on: ends of q and k, the longest of both, dropout, causal.
  Call(const Stack& stack, size_t first, size_t second, const c10::IValue& scale)
      : q(rows(stack[first])),
        k(rows(stack[first + 1])),
        v(rows(stack[first + 2])),
        ends(stack[second].toTensor().cpu()),
        causal(stack[second + 5].toBool()),
        scale(scale.toDouble()) {
    ++calls;
    TORCH_CHECK(q.size(2) % 8 == 0 && q.size(2) <= 256 && q.size(1) % k.size(1) == 0, "no such heads");
    TORCH_CHECK(ends.scalar_type() == at::kInt && stack[second].toTensor().is_privateuseone(),
                "expected ends of int32");
    TORCH_CHECK(stack[second + 4].toDouble() == 0, "dropout is not tried");
    TORCH_CHECK(ends[0].item<int>() == 0 && ends[-1].item<int>() == q.size(0), "expected ends of all rows");
    const int64_t longest = ends.diff().max().item<int64_t>();
    TORCH_CHECK(longest <= stack[second + 2].toInt() && longest <= stack[second + 3].toInt(), "a longer sample");
  }
  static at::Tensor rows(const c10::IValue& argument) {
    const at::Tensor& x = argument.toTensor();
    TORCH_CHECK(x.dim() == 3 && x.stride(2) == 1 && c10::elementSize(x.scalar_type()) == 2, "expected packed rows");
    return x.cpu().to(at::kFloat);
  }
  /// Calls `work` for the rows of each sample, with q, k and v [heads, rows, size].
  template <class Work>
  void for_each_sample(const Work& work) const {
    for (int64_t i = 0; i + 1 < ends.numel(); ++i) {
      const int64_t begin = ends[i].item<int64_t>(), count = ends[i + 1].item<int64_t>() - begin;
      const auto part = [&](const at::Tensor& x) {
        return x.narrow(0, begin, count).transpose(0, 1).repeat_interleave(q.size(1) / x.size(1), 0);
      };
      const at::Tensor scores = at::matmul(part(q), part(k).transpose(1, 2)) * scale;
      if (causal)
        scores.masked_fill_(at::ones({count, count}, at::kBool).triu(1), -std::numeric_limits<float>::infinity());
      work(begin, count, scores, part);
    }
  }
  at::Tensor q, k, v, ends;
  bool causal;
  double scale;
};

void forward(const c10::OperatorHandle& operation, Stack* stack) {
  const Stack all = torch::jit::pop(*stack, operation.schema().arguments().size());
  const at::Tensor& of = all[0].toTensor();
  const Call call(all, 0, 3, all[10]);
  const at::Tensor out = at::zeros_like(call.q), log_sum = at::zeros({call.q.size(1), call.q.size(0)});
  call.for_each_sample([&](int64_t begin, int64_t count, const at::Tensor& scores, const auto& part) {
    out.narrow(0, begin, count).copy_(at::matmul(scores.softmax(-1), part(call.v)).transpose(0, 1));
    log_sum.narrow(1, begin, count).copy_(scores.logsumexp(-1));
  });
  torch::jit::push(*stack, out.to(of.scalar_type()).to(of.device()), log_sum.to(of.device()),
                   at::full({2}, 7, at::kLong).to(of.device()), at::zeros({}, at::kLong).to(of.device()),
                   at::empty({0}, of.options()));
}

void backward(const c10::OperatorHandle& operation, Stack* stack) {
  const Stack all = torch::jit::pop(*stack, operation.schema().arguments().size());
  const at::Tensor& of = all[1].toTensor();
  const at::Tensor of_out = Call::rows(all[0]), out = Call::rows(all[4]), log_sum = all[5].toTensor().cpu();
  TORCH_CHECK(all[12].toTensor().cpu().equal(at::full({2}, 7, at::kLong)), "expected forward's random state");
  const Call call(all, 1, 6, all[14]);
  const at::Tensor dq = at::zeros_like(call.q), dk = at::zeros_like(call.k), dv = at::zeros_like(call.v);
  call.for_each_sample([&](int64_t begin, int64_t count, const at::Tensor& scores, const auto& part) {
    const auto add = [&](const at::Tensor& to, const at::Tensor& gradient) {
      to.narrow(0, begin, count).copy_(gradient.unflatten(0, {to.size(1), -1}).sum(1).transpose(0, 1));
    };
    const at::Tensor p = (scores - log_sum.narrow(1, begin, count).unsqueeze(-1)).exp(), dy = part(of_out);
    const at::Tensor of_p = at::matmul(dy, part(call.v).transpose(1, 2)) - (dy * part(out)).sum(-1, true);
    const at::Tensor of_scores = p * of_p * call.scale;
    add(dq, at::matmul(of_scores, part(call.k)));
    add(dk, at::matmul(of_scores.transpose(1, 2), part(call.q)));
    add(dv, at::matmul(p.transpose(1, 2), dy));
  });
  const auto back = [&](const at::Tensor& x) { return x.to(of.scalar_type()).to(of.device()); };
  torch::jit::push(*stack, back(dq), back(dk), back(dv));
}

}  // namespace

int64_t flash_calls() {
  return calls;
}

// Boxed, as LibTorch adds arguments at their ends from version to version.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_flash_attention_forward", torch::CppFunction::makeFromBoxedFunction<&forward>());
  m.impl("_flash_attention_backward", torch::CppFunction::makeFromBoxedFunction<&backward>());
}

}  // namespace adjoin::testing
