#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "adjoin/partition/rows.hpp"

namespace adjoin {

/// What a forward pass must know of the training step that it belongs to. There is no hidden random generator: a mask
/// follows from the seed, the layer's name, the step and global coordinates alone.
struct StepContext {
  uint64_t seed = 0;
  int64_t step = 0;
  bool training = false;     ///< false: dropout does nothing
  int64_t first_sample = 0;  ///< place in the global batch of the first sample that is here, sample 0 of `rows`
  /// Which sample and token each row of activations is; where not given, row i is sample i, a single token.
  std::shared_ptr<const Rows> rows = {};
  int worker = 0;  ///< whose of the rows are here
  /// Which of the worker's rows are here, where ranks that share them have a part each; all unless given.
  std::optional<Range> part = {};

  /// The global sample and the token of each of the `count` rows that are here.
  /// Throws: InvalidArgument where `rows` are of another number
  std::vector<TokenPlace> places(int64_t count) const;

  /// The rows of the worker, all parts together, and the context of the balanced part that one of `ranks` ranks has of them.
  /// Throws: InvalidArgument without `rows`
  int64_t row_count() const;
  StepContext of_part(int ranks, int rank) const;
};

}  // namespace adjoin
