#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin::nn {

/// The way of rows to the experts that were chosen for them, on whatever rank these are, and back.
///
/// A row goes to each of its experts. Here they are sorted by expert, once; each rank's then go there by all_to_all.
class ExpertRows {
 public:
  /// `chosen`: [rows, top_k] int64, the experts of each row that is here, all different; `experts`: which experts each rank of the
  /// group has, in its order.
  /// Cost:   a number for each expert to its rank
  /// Throws: InvalidArgument where the experts are not split into as many ranges, in order, as the group has ranks
  ExpertRows(const at::Tensor& chosen, const Split& experts, const Communicator& group);

  /// Shape:   [rows, features] -> the rows of each expert of this rank, one expert's behind another's
  /// Kinds:   split -> split otherwise
  /// Adjoint: the sum, for each row, of what its experts give
  /// Cost:    each row as often as it goes to another rank
  at::Tensor to_experts(const at::Tensor& x) const;
  /// Shape:   as to_experts gives -> [rows, top_k, features], where [:, j] is what the j-th expert of each row made of it
  /// Adjoint: once more to the experts
  at::Tensor from_experts(const at::Tensor& y) const;

  /// Of each expert of this rank, the rows that it got; and of all experts, those that went there from here.
  const std::vector<int64_t>& received() const { return way_->received; }
  const std::vector<int64_t>& sent() const { return way_->sent; }

 private:
  struct Way {
    int64_t rows = 0, top_k = 0;
    at::Tensor order, inverse;           // of all pairs of a row and an expert: sorted by expert, and back
    at::Tensor row;                      // of each sorted pair
    std::vector<int64_t> sent;           // pairs, of each expert
    std::vector<int64_t> received;       // of each expert here, from all ranks
    std::vector<int64_t> to, from;       // pairs, of each rank
    std::vector<Range> by_expert, back;  // of what came, the pairs of each expert and rank, expert by expert; and back
    Communicator group;
  };
  std::shared_ptr<const Way> way_;
};

/// While it lives, each row on this thread goes to other experts than those that its scores choose: for plans and tests.
class AssumedExperts {
 public:
  enum class Rows : uint8_t {
    even,  ///< all experts have equally many
    here,  ///< those of this rank have all that they can have, from all ranks
  };
  /// `alone`: the other ranks do not exist, so they are taken to send what this one sends.
  AssumedExperts(Rows rows, bool alone);
  ~AssumedExperts();
  AssumedExperts(const AssumedExperts&) = delete;
  AssumedExperts& operator=(const AssumedExperts&) = delete;

  /// The one that lives, if any.
  static const AssumedExperts* any();
  /// The experts of each row [rows, top_k], where one lives; else those that were chosen.
  static at::Tensor in_place_of(const at::Tensor& chosen, const Split& experts, int rank);
  bool alone() const { return alone_; }

 private:
  Rows rows_;
  bool alone_;
  const AssumedExperts* outer_;
};

}  // namespace adjoin::nn
