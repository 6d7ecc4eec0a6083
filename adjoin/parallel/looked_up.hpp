#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "adjoin/base/not_copied.hpp"
#include "adjoin/comm/communicator.hpp"
#include "adjoin/movement/fixed_order.hpp"
#include "adjoin/nn/parameter.hpp"

namespace adjoin::parallel {

/// A table of vectors of which each rank that holds a copy keeps its shard (adjoin::sharded), and of which only rows move: a look-up
/// fetches the rows that its ids name from their owners, and the gradients of these rows go to the owners. An embedding reads few
/// rows of many.
class LookedUp : NotCopied {
 public:
  /// `table` is this rank's piece [rows, columns], on any layout, whose tensor needs no memory. `shard` holds this rank's rows of it;
  /// each look-up reads its present values. If it `has_all_rows` on every rank, a look-up moves nothing, and all ranks get the whole
  /// sum of gradients. `copies` are the ranks that hold copies of the piece (nn::copies_of).
  /// Throws: InvalidArgument where `can_serve` of the parameter is false
  LookedUp(nn::Parameter table, at::Tensor shard, Communicator copies, bool has_all_rows = false);

  /// Whether rows of such a parameter can be looked up: a matrix of real floating-point numbers.
  static bool can_serve(const nn::Parameter& parameter);
  /// Whether `tensor` is the table itself, rather than a view of it, without hooks of users, which expect a whole gradient.
  bool serves(const at::Tensor& tensor) const;

  /// at::embedding, with ids [*] of this rank -> [*, columns]. A collective of the copies: each has ids of its own, or none.
  ///
  /// Its backward is no collective: it adds up the rows' gradients until sum_gradients, and leaves `.grad` as it is.
  /// torch::autograd::grad of the table gives its whole gradient on this rank, as LibTorch does.
  /// Cost:   all-to-alls of a number for each rank, of the distinct ids, and of their rows
  /// Memory: the distinct rows
  /// Throws: InvalidArgument for ids out of range or of another type than int64 and int32, on this rank before anything is sent
  at::Tensor look_up(const at::Tensor& ids, int64_t padding_idx = -1);
  /// The same where `fetch` gives the rows of ids that are sorted and distinct: for callers that choose when ranks meet.
  using Fetch = std::function<at::Tensor(const at::Tensor& ids)>;
  at::Tensor look_up(const at::Tensor& ids, int64_t padding_idx, const Fetch& fetch);

  /// A collective: the rows of ids that are sorted and distinct, or none.
  at::Tensor rows(const at::Tensor& ids) const;

  /// From now on the gradients of look-ups in a FixedOrder have its order: they are added up lane by lane, in float32.
  void sum_lanes(const HeldLanes& lanes) { lanes_ = lanes; }
  /// Whether a backward of a look-up has left gradients, even of no rows, since the last call of sum_gradients or forget_gradients.
  bool has_gradients() const;
  /// A collective, also of ranks without gradients: the gradient of the shard, times `scale`, with zeros for rows that no rank has
  /// looked up. float32 and float64 rows are sent in the type `wire`, in which the sums are rounded too. Of lanes each rank sends the
  /// rows of each of its nodes of the tree.
  ///
  /// Its bits are those of the dense gradients' sum in rank order where backward has reached one look-up; LibTorch would add those of
  /// several to each other, before it adds the sum to `.grad`.
  /// Cost:   all-to-alls of a number for each rank, of the distinct ids, and of their rows
  at::Tensor sum_gradients(double scale = 1, std::optional<at::ScalarType> wire = {});
  void forget_gradients();

 private:
  struct Vectors;
  struct MovedRows;
  struct RowGradients;
  struct Asked;
  Asked asked_of_owners(const at::Tensor& ids, int64_t each = 1) const;
  MovedRows gathered(const MovedRows& mine) const;
  MovedRows in_one_list(RowGradients& mine, std::vector<Range>& nodes) const;
  MovedRows sum_of(const MovedRows& all, const std::vector<Range>& nodes) const;
  at::Tensor exchanged(const at::Tensor& rows, const std::vector<int64_t>& to, const std::vector<int64_t>& from) const;

  nn::Parameter table_;
  at::Tensor shard_;
  Communicator copies_;
  bool has_all_rows_;
  std::optional<HeldLanes> lanes_;
  std::shared_ptr<RowGradients> gradients_;  // which backward may reach after this object's end
};

}  // namespace adjoin::parallel
