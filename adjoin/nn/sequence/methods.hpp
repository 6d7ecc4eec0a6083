#pragma once

#include "adjoin/nn/sequence/attention.hpp"

namespace adjoin::nn {

// The methods of attention(). Arguments are checked before: q, k and v have equal head sizes and unit stride in the last dim,
// and `options.scale` has a value.

at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const TokenRows& rows,
                          const Communicator& group, const AttentionOptions& options);

at::Tensor gathered_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const TokenRows& rows,
                              const Communicator& group, const AttentionOptions& options);

at::Tensor ulysses_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const TokenRows& rows,
                             const Communicator& group, const AttentionOptions& options);

/// All rows are on this worker. Samples that are whole and in order go through LibTorch's kernel, those of about equal length
/// together, or on a device through its operations, or its flash kernels (flash_serves). What that kernel cannot do, and numbers that
/// are not finite, go through a ring of one worker.
at::Tensor attention_on_one_worker(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const TokenRows& rows,
                                   const AttentionOptions& options);

}  // namespace adjoin::nn
