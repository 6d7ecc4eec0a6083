#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "adjoin/partition/token_rows.hpp"

namespace adjoin {

/// The rows of activations that are on this rank: all rows of one worker of `TokenRows`, or a part of them.
class LocalTokenRows {
 public:
  /// Row i is sample i with a single token, for any number of rows.
  LocalTokenRows() = default;
  /// The rows of worker `index`. Throws: InvalidArgument where `rows` has no such worker
  explicit LocalTokenRows(TokenRows rows, int index = 0);

  /// Whether the sample and token of each row are known. The functions below throw InvalidArgument where they are not.
  explicit operator bool() const { return rows_.has_value(); }
  const TokenRows& all() const;
  int index() const { return index_; }
  int64_t size() const;
  /// Some of these rows.
  LocalTokenRows part(Range some) const;

  /// The sample and token of each of the `count` rows on this rank; computed once for all callers.
  /// Throws: InvalidArgument where there is another number of rows
  std::shared_ptr<const std::vector<TokenPlace>> places(int64_t count) const;

 private:
  std::optional<TokenRows> rows_;
  int index_ = 0;
  std::optional<Range> part_;
};

}  // namespace adjoin
