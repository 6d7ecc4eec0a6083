#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "adjoin/models/segment.hpp"
#include "adjoin/nn/embedding.hpp"

namespace adjoin::models {

/// The first segment of a model, "embedding": words, and positions where the holder is not empty.
inline Segment embedding_segment(const nn::ParallelEmbedding& words, const nn::ParallelEmbedding& positions,
                                 std::function<at::Tensor(const at::Tensor&, const StepContext&)> forward) {
  return {
      .name = "embedding",
      .module = std::make_shared<Parts>(Parts::List{{"embedding", words.ptr()}, {"positions", module_of(positions)}}),
      .forward = std::move(forward),
      .needs = [words, positions](const Load& load) {
        Needs needs;
        words->add_calls(load.rows, load.bytes, needs.forward, needs.backward);
        if (positions) positions->add_calls(load.rows, load.bytes, needs.forward, needs.backward);
        return needs;
      }};
}

}  // namespace adjoin::models
