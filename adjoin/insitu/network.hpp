#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

#include "adjoin/insitu/blocks.hpp"
#include "adjoin/movement/distributed_tensor.hpp"
#include "adjoin/nn/parameter.hpp"

namespace adjoin::insitu {

struct Node;
class Normaliser;

/// One network over the whole domain, which is cut over space as the solver's blocks are: every layer makes its outputs where the cells
/// are, so that halos are all that moves. Its weights are the same for any blocks.
///
/// The description is JSON, whose lists for dims are in the solver's order:
///
///     {"inputs": 3, "padding": ["periodic", "periodic", ["zeros", "replicate"]],
///      "layers": [{"name": "a", "type": "conv", "out": 16}, "gelu", …, {"type": "cat", "of": ["up", "a"]}, …]}
///
/// A layer reads the layer before it, or those that "of" names; the one at the start is called "input". docs/in-situ.md lists them.
class Network : public torch::nn::Module {
 public:
  /// Called by all ranks with the same description. Weights are as `seed` says.
  /// Throws: InvalidArgument on all ranks alike, with the layer and the key
  Network(const Blocks& blocks, const std::string& description, at::ScalarType type, uint64_t seed);
  ~Network() override;

  /// An input of so many samples of each member, to be filled in: its memory has room for the halo of the layer that reads it, which then
  /// copies nothing. Called by all ranks.
  DistributedTensor input(int64_t batch) const;
  /// Shape: [batch, channels, *space] -> the last layer's; both cut by Blocks::rule
  DistributedTensor forward(const DistributedTensor& x);

  const Blocks& blocks() const { return blocks_; }
  at::ScalarType type() const { return type_; }
  const std::string& description() const { return description_; }
  /// Of the input and the output for a batch of so many samples of each member.
  Layout input_layout(int64_t batch) const { return layout_of("input", batch); }
  Layout output_layout(int64_t batch) const;
  /// The layout of what a layer makes. Throws: InvalidArgument where there is no such layer
  Layout layout_of(const std::string& layer, int64_t batch) const;
  /// Throws: InvalidArgument where there is no such layer, or it is none, or its moments were given
  Normaliser& running_normaliser(const std::string& layer) const;
  /// The last layer, where it gives outputs their mean and deviation; else nullptr.
  const Normaliser* output_normaliser() const;
  std::vector<nn::Parameter> parameters_and_buffers() const;
  /// About how many bytes this rank needs at least for a pass over so many samples: for what all layers make, or without `records`, for what
  /// one makes.
  double bytes_of_pass(int64_t batch, bool records) const;
  /// Forgets the gradients.
  void zero_gradients();

 private:
  Layout layout_of(const Node& node, int64_t batch) const;
  size_t index_of(const std::string& name) const;

  Blocks blocks_;
  at::ScalarType type_;
  std::string description_;
  std::vector<Node> nodes_;          // in the order in which they run; the first is the input
  std::vector<size_t> last_used_;    // for each node, the last that reads it
  double made_ = 0, most_made_ = 0;  // elements of this rank, for one sample, of all layers and of one
};

}  // namespace adjoin::insitu
