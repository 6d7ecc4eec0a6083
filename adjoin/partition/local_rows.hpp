#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "adjoin/partition/rows.hpp"

namespace adjoin {

/// The rows of activations that are on this rank: those of one worker of `Rows`, or a part of them.
class LocalRows {
 public:
  /// Row i is sample i, a single token, however many rows there are.
  LocalRows() = default;
  /// Those of worker `index`. Throws: InvalidArgument where `rows` have no such worker
  explicit LocalRows(Rows rows, int index = 0);

  /// Whether it was said which sample and token each row is. The functions below throw InvalidArgument unless it was.
  explicit operator bool() const { return rows_.has_value(); }
  const Rows& all() const;
  int index() const { return index_; }
  int64_t size() const;
  /// The balanced part of these rows that one of `ranks` ranks has.
  LocalRows part(int ranks, int rank) const;

  /// The sample and token of each of the `count` rows that are here; made once for all who ask.
  /// Throws: InvalidArgument where there are another number of rows
  std::shared_ptr<const std::vector<TokenPlace>> places(int64_t count) const;

 private:
  std::optional<Rows> rows_;
  int index_ = 0;
  std::optional<Range> part_;
};

}  // namespace adjoin
