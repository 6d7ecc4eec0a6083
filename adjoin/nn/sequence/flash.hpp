#pragma once

#include "adjoin/nn/sequence/attention.hpp"

namespace adjoin::nn {

/// Whether LibTorch's flash kernels serve whole samples in order with these arguments: on a GPU, 16-bit numbers in heads of a multiple of
/// 8 features, up to 256, without a mask or dropout, and where LibTorch may add in any order, as their backward does
/// (use_exact_kernels).
bool flash_serves(const at::Tensor& q, const AttentionOptions& options);

/// As attention() on one worker. The kernels take rows packed as they are, and key heads that several query heads share.
at::Tensor flash_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const TokenRows& rows,
                           const AttentionOptions& options);

}  // namespace adjoin::nn
