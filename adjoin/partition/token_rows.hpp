#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "adjoin/base/memo.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin {

/// Consecutive tokens of one sample on a worker.
struct Run {
  int64_t sample = 0;
  Range tokens;
  bool operator==(const Run&) const = default;
};

/// Of each sample, cut into balanced blocks of its tokens, those that each worker of a group holds.
struct TokenBlocks {
  int64_t count = 1;
  std::vector<std::vector<int64_t>> held = {{0}};  ///< the numbers of each worker's blocks, in the order of its rows

  /// Worker i of P gets the i-th of P ranges; or, for causal attention, the i-th of 2 P from the beginning and the i-th from the
  /// end. The first worker holds the first block.
  static TokenBlocks of(int64_t count, int workers, bool causal);
  /// A block's tokens of a sample of `length`.
  Range tokens(int64_t block, int64_t length) const;
};

/// The sample and token of a row of activations.
struct TokenPlace {
  int64_t sample = 0, token = 0;
  bool operator==(const TokenPlace&) const = default;
};

/// The sample and token of each row of activations [rows, …], on every worker of a group.
///
/// Samples of any lengths are split over the workers; each token is a row of exactly one worker, and there is no padding. A
/// worker's rows are its runs, one after another; it may have none. Arithmetic alone: workers that construct equal TokenRows need
/// not communicate. Copies share one table, and with it the values derived from it (`once`).
class TokenRows {
 public:
  /// Cuts each sample into balanced parts of its tokens; worker i gets the i-th part.
  /// Throws: InvalidArgument for a negative length or no workers (as do the functions below).
  static TokenRows balanced(const std::vector<int64_t>& lengths, int workers);

  /// Cuts each sample into 2 P balanced pieces; worker i of P gets the i-th from the beginning and the i-th from the end: so
  /// causal attention is the same amount of work for all, whatever the lengths are.
  /// Source: Brandon et al., "Striped attention", arXiv 2311.09431, discuss why; the zig-zag is that of Llama 3, arXiv
  ///         2407.21783, section 3.3.2
  static TokenRows zigzag(const std::vector<int64_t>& lengths, int workers);

  /// A worker's rows are those of the first block that it holds, sample by sample, then those of the next one.
  static TokenRows in_blocks(const std::vector<int64_t>& lengths, const TokenBlocks& blocks);

  /// Worker i holds the runs of runs[i], in that order; samples are numbered from 0.
  /// Throws: InvalidArgument unless every token of each sample is in exactly one run.
  static TokenRows of_runs(std::vector<std::vector<Run>> runs, std::vector<int64_t> lengths);

  int workers() const { return static_cast<int>(table_->runs.size()); }
  std::span<const Run> runs(int worker) const { return table_->runs[static_cast<size_t>(worker)]; }
  const std::vector<int64_t>& lengths() const { return table_->lengths; }
  /// The index of a sample's first token when all samples follow one another.
  int64_t offset(int64_t sample) const { return table_->offsets[static_cast<size_t>(sample)]; }
  /// The number of rows in total, and on one worker.
  int64_t size() const { return table_->offsets.back(); }
  int64_t size(int worker) const;
  /// The sample and token of each of a worker's rows, in their order.
  std::vector<TokenPlace> places(int worker) const;

  /// The same rows as a split of dim 0 of a tensor in which the samples follow one another.
  Split split() const;
  /// All rows on one worker, sample by sample.
  TokenRows on_one_worker() const;

  /// What layers derive from the rows, made once for all layers of a micro-batch (Memo::once).
  template <class Make>
  const auto& once(const std::string& key, const Make& make) const {
    return table_->derived.once(key, make);
  }

  bool operator==(const TokenRows& other) const;
  /// "samples of [5, 3] as 0:[0, 3) | 0:[3, 5) 1:[0, 3)"
  std::string to_string() const;

 private:
  TokenRows(std::vector<std::vector<Run>> runs, std::vector<int64_t> lengths);

  struct Table {
    std::vector<std::vector<Run>> runs;
    std::vector<int64_t> lengths, offsets;
    mutable Memo derived;
  };
  std::shared_ptr<const Table> table_;
};

}  // namespace adjoin
