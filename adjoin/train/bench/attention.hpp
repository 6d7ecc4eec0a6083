#pragma once

#include <cstdint>
#include <optional>

#include "adjoin/nn/sequence/attention.hpp"
#include "adjoin/train/bench/side_by_side.hpp"

namespace adjoin::train {

/// What `adjoin bench attention` is asked.
struct BenchAttentionOptions {
  SideBySideOptions run;
  std::optional<nn::AttentionMethod> method = nn::AttentionMethod::ring;  // none: LibTorch's own, on one worker
  bool causal = false;
  double dropout = 0;
  int64_t length = 8192, heads = 4, size = 64;  // rows T in all, and the size of a head
};

/// Times attention of one sample whose rows are split, forward and backward, in float32, beside LibTorch's own on one
/// worker, which has no dropout; and where it is causal or drops, beside the same method that does neither (`plain`).
SideBySide bench_attention(const BenchAttentionOptions& options);

}  // namespace adjoin::train
