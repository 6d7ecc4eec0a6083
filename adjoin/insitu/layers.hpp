#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "adjoin/insitu/blocks.hpp"
#include "adjoin/insitu/fields.hpp"
#include "adjoin/insitu/normaliser.hpp"
#include "adjoin/movement/distributed_tensor.hpp"

namespace adjoin::insitu {

/// A layer of a network: what it reads, what it makes, and how.
struct Node {
  std::string name;
  std::vector<size_t> of;  ///< the indices of the nodes that it reads
  int64_t channels = 0;
  std::vector<int64_t> space;                      ///< rows first
  std::shared_ptr<torch::nn::Module> module = {};  ///< where it has one
  std::shared_ptr<Normaliser> normaliser = {};     ///< the module, where it is one
  std::vector<nn::Parameter> pieces = {};          ///< of a program, which is no module of the network
  std::function<DistributedTensor(const std::vector<DistributedTensor>&)> apply = {};
  std::function<std::vector<Pads>(const Layout& input)> room =
      {};  ///< of a layer that can complete it (DistributedTensor::room)
};

/// What a layer is made with.
struct LayerSite {
  const Blocks& blocks;
  at::ScalarType type;
  std::vector<Edges> edges;                             ///< of each dim of space, where a layer says nothing
  std::function<const Node&(const std::string&)> node;  ///< an earlier node by its name; throws InvalidArgument
  std::vector<const Node*> inputs = {};                 ///< of the layer
};

/// The padding that "padding" describes for each dim; `otherwise` without it.
std::vector<Edges> edges_of(const Fields& fields, const Blocks& blocks, std::vector<Edges> otherwise);

/// Completes a node that has its name. Throws: InvalidArgument that names the layer and the key
void make_layer(const Fields& fields, const LayerSite& site, Node& node);

}  // namespace adjoin::insitu
