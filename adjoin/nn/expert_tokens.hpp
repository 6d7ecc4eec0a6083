#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/nn/fixed/layers.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin::nn {

/// Sends rows to the experts that were chosen for them, on whichever ranks these are, and back.
///
/// A row goes to each of its experts. The pairs of a row and an expert are sorted by expert once; then all_to_all sends each
/// rank its pairs.
class ExpertTokens {
 public:
  /// `chosen`: [rows, top_k] int64, the experts of each row here, all different; `experts`: which experts each rank of the
  /// group has, in rank order; `device`: where the rows are. The host counts what was chosen, and waits where that is on a device.
  /// `leaf_of`: the number of the leaf of each row, of so many `leaves`, where sums have a fixed order.
  /// Cost:   one number for each expert, and leaf, sent to its rank
  /// Throws: InvalidArgument unless each rank of the group has one range of experts, in order, and for a chosen expert that is
  ///         in none of these
  ExpertTokens(const at::Tensor& chosen, const Split& experts, const Communicator& group, at::Device device = at::kCPU,
               const std::vector<int64_t>& leaf_of = {}, int64_t leaves = 0);

  /// Shape:   [rows, features] -> the rows of each expert of this rank, expert by expert
  /// Kinds:   split -> split in another way
  /// Adjoint: for each row, the sum of the gradients from its experts
  /// Cost:    each row is sent once for each of its experts on another rank
  at::Tensor to_experts(const at::Tensor& x) const;
  /// Shape:   what to_experts gives -> [rows, top_k, features], where [:, j] is the result of each row's j-th expert
  /// Adjoint: sends gradients to the experts
  at::Tensor from_experts(const at::Tensor& y) const;

  /// For each expert of this rank, how many rows it received; for all experts, how many rows this rank sent to them.
  const std::vector<int64_t>& received() const { return routes_->received; }
  /// The same with the leaves of each rank's rows, where there are any.
  fixed::GroupedRows grouped() const { return {routes_->received, routes_->sources}; }
  const std::vector<int64_t>& sent() const { return routes_->sent; }

 private:
  struct Routes {
    int64_t rows = 0, top_k = 0;
    at::Tensor order, inverse;           // of all pairs of a row and an expert: sorts them by expert, and back
    at::Tensor row;                      // the row of each sorted pair
    std::vector<int64_t> sent;           // number of pairs, for each expert
    std::vector<int64_t> received;       // for each expert here, from all ranks
    std::vector<int64_t> to, from;       // number of pairs, for each rank
    std::vector<Range> by_expert, back;  // of received pairs: the range of each expert and rank, by expert; and back
    Communicator group;
    std::shared_ptr<const fixed::GroupedRows::OfSources> sources = {};
  };
  std::shared_ptr<const Routes> routes_;
};

/// While it lives, rows on this thread go to assumed experts instead of those that their scores choose: for plans and tests.
class AssumedExperts {
 public:
  enum class Spread : uint8_t {
    even,  ///< all experts get the same number
    here,  ///< the experts of this rank get all rows that they can, from all ranks
  };
  /// `alone`: the other ranks do not exist, so each is assumed to send what this rank sends.
  AssumedExperts(Spread spread, bool alone);
  ~AssumedExperts();
  AssumedExperts(const AssumedExperts&) = delete;
  AssumedExperts& operator=(const AssumedExperts&) = delete;

  /// The living one, or null.
  static const AssumedExperts* any();
  /// The experts of each row [rows, top_k]: the assumed ones if an AssumedExperts lives, else `chosen`.
  static at::Tensor in_place_of(const at::Tensor& chosen, const Split& experts, int rank);
  bool alone() const { return alone_; }

 private:
  Spread spread_;
  bool alone_;
  const AssumedExperts* outer_;
};

}  // namespace adjoin::nn
