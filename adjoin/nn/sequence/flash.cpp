#include "adjoin/nn/sequence/flash.hpp"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <string>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/saved_value.hpp"

namespace adjoin::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

/// Where samples begin and end.
struct PackedSamples {
  at::Tensor ends;  // int32: 0, and each sample's last row plus 1
  int64_t longest;
};

PackedSamples packed_samples(const std::vector<int64_t>& lengths, at::Device device) {
  std::vector<int32_t> ends{0};
  for (const int64_t length : lengths)
    if (length > 0) ends.push_back(ends.back() + static_cast<int32_t>(length));
  return {at::tensor(ends, at::kInt).to(device), std::ranges::max(lengths)};
}

/// The data of a call besides its tensors.
struct FlashArguments {
  PackedSamples rows;
  bool causal;
  double scale;
};

struct Flash : torch::autograd::Function<Flash> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const FlashArguments& arguments) {
    const auto& [rows, causal, scale] = arguments;
    const auto [out, log_sum, random, unused, mask] =
        at::_flash_attention_forward(q, k, v, rows.ends, rows.ends, rows.longest, rows.longest, /*dropout_p=*/0.0,
                                     causal, /*return_debug_mask=*/false, scale);
    ctx->save_for_backward({q, k, v, out, log_sum, random, unused});
    ctx->saved_data["arguments"] = saved_value(arguments);
    return out;
  }

  static tensor_list backward(AutogradContext* ctx, tensor_list gradients) {
    require(!at::GradMode::is_enabled(), "attention: double backward is not supported");
    const auto& [rows, causal, scale] = value_of<FlashArguments>(ctx->saved_data["arguments"]);
    const tensor_list saved = ctx->get_saved_variables();
    const auto [of_q, of_k, of_v] = at::_flash_attention_backward(
        gradients[0].contiguous(), saved[0], saved[1], saved[2], saved[3], saved[4], rows.ends, rows.ends, rows.longest,
        rows.longest, /*dropout_p=*/0.0, causal, saved[5], saved[6], scale);
    return {of_q, of_k, of_v, at::Tensor()};
  }
};

}  // namespace

bool flash_serves(const at::Tensor& q, const AttentionOptions& options) {
  const int64_t size = q.size(2);
  return (q.is_cuda() || q.is_privateuseone()) && (q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16) &&
         size % 8 == 0 && size <= 256 && !options.mask && !options.drops() &&
         !at::globalContext().deterministicAlgorithms();
}

at::Tensor flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const TokenRows& rows,
                           const AttentionOptions& options) {
  const PackedSamples& of_rows =
      rows.once("packed on " + q.device().str(), [&] { return packed_samples(rows.lengths(), q.device()); });
  return Flash::apply(q, k, v, FlashArguments{of_rows, options.causal, *options.scale});
}

}  // namespace adjoin::nn
