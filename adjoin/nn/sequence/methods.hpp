#pragma once

#include <optional>

#include "adjoin/nn/sequence/attention.hpp"

namespace adjoin::nn {

// The methods of attention(), of arguments that have been checked: q, k and v have heads of one size and a last dim that
// runs along memory, and `options.scale` is given.

at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Rows& rows,
                          const Communicator& group, const AttentionOptions& options);

at::Tensor gathered_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Rows& rows,
                              const Communicator& group, const AttentionOptions& options);

/// All rows on one worker are a ring of one.
at::Tensor ulysses_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Rows& rows,
                             const Communicator& group, const AttentionOptions& options);

/// A ring of one worker, which has each sample whole and in order: samples of about equal length go through LibTorch's kernel
/// together. Nothing where the kernel cannot do it, or a number is not finite: a ring of one is for all.
std::optional<at::Tensor> whole_sample_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                 const Rows& rows, const AttentionOptions& options);

}  // namespace adjoin::nn
