#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "adjoin/linalg/local.hpp"
#include "adjoin/linalg/rounds.hpp"
#include "adjoin/nn/sequence/attention.hpp"
#include "adjoin/nn/sequence/tile.hpp"

namespace adjoin::nn {

/// The ranks of a group, each of which passes to the next rank what it got from the previous one.
class Ring {
 public:
  Ring(Communicator group, TokenRows rows, AttentionOptions options)
      : group_(std::move(group)), rows_(std::move(rows)), options_(std::move(options)) {}
  virtual ~Ring() = default;

  /// Attention of this rank's queries to all keys.
  virtual PartialAttention forward(const TileInputs& mine) const = 0;
  /// The gradients of this rank's q, k and v.
  virtual TileInputs backward(const TileInputs& mine, const TileResults& results) const = 0;

 protected:
  using Tensors = std::vector<at::Tensor>;

  int modulo(int rank) const { return (rank % group_.size() + group_.size()) % group_.size(); }
  /// The rank whose keys and values are here.
  int owner_in(int step) const { return modulo(group_.rank() - step); }

  /// Calls `work(step, visitors)` with the keys and values of each rank, beginning with this one's. Between hosts the next ones
  /// are received meanwhile.
  template <class Work>
  void go_round(const TileInputs& mine, const Work& work) const {
    std::deque<Tensors> visitors{{mine.k, mine.v}};  // the ones that are here, then those on their way
    const auto begin = [&](size_t round) {
      visitors.push_back(visitors.back());
      return hand_on(visitors.back(), rows_.size(owner_in(static_cast<int>(round) + 1)));
    };
    linalg::in_rounds(
        group_, static_cast<size_t>(group_.size()) - 1,
        /*first=*/[&] { work(0, visitors.front()); }, begin,
        [&](size_t round) {
          visitors.pop_front();
          work(static_cast<int>(round) + 1, visitors.front());
        });
  }

  /// Sends the tensors to the next rank, and replaces them by those of the previous rank, which have `rows` rows. They are
  /// complete after the result was waited for.
  linalg::Transfer hand_on(Tensors& tensors, int64_t rows) const {
    linalg::Boxes boxes;
    for (at::Tensor& x : tensors) {
      std::vector<int64_t> sizes = x.sizes().vec();
      sizes[0] = rows;
      const at::Tensor received = at::empty(sizes, x.options().requires_grad(false));
      boxes.send(x, modulo(group_.rank() + 1));
      boxes.receive(received, modulo(group_.rank() - 1));
      x = received;
    }
    return boxes;
  }

  Communicator group_;
  TokenRows rows_;
  AttentionOptions options_;
};

/// A ring whose sums have the same bits however a sample's blocks are held: what the pairs of pieces of a sample (Tile) give is added
/// as a tree over its pieces, in whatever order they come.
/// Cost: as the other one; but the gradients of k and v travel as nodes of that tree, up to twice its depth of them
std::shared_ptr<const Ring> ring_in_order(Communicator group, TokenRows rows, AttentionOptions options);

}  // namespace adjoin::nn
