#pragma once

#include <torch/nn/module.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "adjoin/comm/communicator.hpp"
#include "adjoin/partition/split.hpp"

namespace adjoin::nn {

/// How a parameter begins. Normal numbers depend on seed, full name and global index, never on the layout.
struct Initial {
  enum class Kind : uint8_t { zeros, ones, normal };
  Kind kind = Kind::zeros;
  double deviation = 0;

  static Initial zeros() { return {Kind::zeros, 0}; }
  static Initial ones() { return {Kind::ones, 0}; }
  static Initial normal(double deviation) { return {Kind::normal, deviation}; }
};

/// The global tensor that a parameter is a piece of.
struct Shard {
  std::vector<int64_t> shape;  ///< of the global tensor
  std::optional<Split> split;  ///< how the group cuts it; none where each rank holds all of it
  Communicator group;          ///< the workers that hold the pieces, or the replicas
  Initial initial;

  std::vector<int64_t> local_shape() const;
};

/// A layer that owns parameters which are pieces of global tensors.
///
/// A parameter is NaN until `initialize` was called, so that forgetting it shows in the first loss.
class ShardedModule : public torch::nn::Module {
 public:
  const std::map<std::string, Shard>& shards() const { return shards_; }

 protected:
  at::Tensor& register_shard(const std::string& name, Shard shard, const at::TensorOptions& options);

 private:
  std::map<std::string, Shard> shards_;
};

/// A parameter under its full name ("block0.attention.out.weight") with what it is a piece of.
struct Parameter {
  std::string name;
  at::Tensor tensor;
  Shard shard;
};

/// All parameters of a module and its children, in the order of registration. One that no ShardedModule owns counts as
/// replicated on a group of this worker alone.
std::vector<Parameter> parameters_of(const torch::nn::Module& module);

/// Fills the parameters of a module as their `Initial` says. The same seed gives the same global tensors in every
/// layout.
/// Cost: about 25 ns a normal number on one core; no communication
void initialize(const torch::nn::Module& module, uint64_t seed);

}  // namespace adjoin::nn
