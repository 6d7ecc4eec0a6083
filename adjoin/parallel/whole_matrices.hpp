#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "adjoin/nn/parameter.hpp"
#include "adjoin/parallel/optimizer.hpp"
#include "adjoin/partition/move_plan.hpp"

namespace adjoin::parallel {

/// The matrices of parameters that are on the same ranks. Each is solved by one of these ranks, whether they hold copies or
/// pieces of it; what each has to do is balanced by the rule's costs.
///
/// The matrices move from the shards (adjoin::sharded) to those who solve them in one exchange, and back in another. One that
/// is whole on one rank alone may stay there.
class WholeMatrices {
 public:
  /// All these ranks make it.
  /// Throws: InvalidArgument for a parameter of less than two dims, or whose matrices do not add up to its rows
  WholeMatrices(const std::vector<nn::Parameter>& parameters, std::vector<size_t> members, const MatrixRule& rule);

  /// Replaces each matrix by what the rule makes of it, in the flat shards that this worker has of all parameters.
  void solve(const std::vector<at::Tensor>& shards, const MatrixRule& rule) const;

 private:
  struct Member {
    size_t parameter;
    std::vector<int64_t> shape, whole_shape;  // of this worker's shard, and of the rows that move to it
    int64_t offset;                           // where these rows begin in the memory for all members
    MovePlan there, back;
  };
  /// Rows of a shard, or of what has moved here.
  struct Matrix {
    size_t member;
    bool stays;
    int64_t begin, rows, columns;
  };
  struct Sides;
  void move(const std::vector<Sides>& sides, bool back) const;

  Communicator world_;
  std::vector<Member> members_;
  std::vector<Matrix> mine_;
  int64_t moved_ = 0, scratch_ = 0;  // elements
};

/// The matrices of all parameters that have some, by the ranks that hold them, in the same order on all workers.
std::vector<std::shared_ptr<const WholeMatrices>> whole_matrices(const std::vector<nn::Parameter>& parameters,
                                                                 const Rule& rule);

}  // namespace adjoin::parallel
