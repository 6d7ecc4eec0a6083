#include "adjoin/insitu/network.hpp"

#include <algorithm>
#include <optional>

#include "adjoin/base/error.hpp"
#include "adjoin/insitu/fields.hpp"
#include "adjoin/insitu/layers.hpp"
#include "adjoin/movement/move.hpp"

namespace adjoin::insitu {

Network::Network(const Blocks& blocks, const std::string& description, at::ScalarType type, uint64_t seed)
    : torch::nn::Module("network"), blocks_(blocks), type_(type), description_(description) {
  const nlohmann::json all = parsed("network", description);
  const Fields fields("network", all);
  nodes_.push_back({.name = "input", .of = {}, .channels = fields.integer("inputs", {}, 1), .space = blocks.shape()});
  LayerSite site{blocks, type, edges_of(fields, blocks, std::vector<Edges>(blocks.dims())),
                 [this](const std::string& name) -> const Node& { return nodes_[index_of(name)]; }};
  const nlohmann::json* layers = fields.value("layers");
  if (!layers || !layers->is_array() || layers->empty()) fields.refuse("layers", "a list of layers");
  fields.end();
  for (const nlohmann::json& given : *layers) {
    const nlohmann::json layer = given.is_string() ? nlohmann::json{{"type", given}} : given;
    const bool has_name = layer.is_object() && layer.contains("name") && layer["name"].is_string();
    const std::string name = has_name ? layer["name"].get<std::string>() : std::to_string(nodes_.size() - 1);
    const Fields of_layer("layer '" + name.substr(0, 60) + "'", layer);
    of_layer.word("name", "");
    const bool is_used = std::ranges::find(nodes_, name, &Node::name) != nodes_.end();
    if (name.empty() || is_used || name.find('.') != name.npos || (!has_name && of_layer.has("name")))
      of_layer.refuse("name", "a word without a dot that no other layer has");
    Node node{.name = name, .of = {}, .space = {}};
    site.inputs.clear();
    for (const std::string& of : of_layer.words("of")) node.of.push_back(index_of(of));
    if (node.of.empty()) node.of.push_back(nodes_.size() - 1);
    for (const size_t of : node.of) site.inputs.push_back(&nodes_[of]);
    try {
      make_layer(of_layer, site, node);
    } catch (const InvalidArgument& error) {
      const std::string text = error.what(), lead = "layer '";
      throw InvalidArgument(text.starts_with(lead) ? text : lead + name + "': " + text);
    }
    if (node.module) register_module(name, node.module);
    nodes_.push_back(std::move(node));
  }
  last_used_.assign(nodes_.size(), 0);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (const size_t of : nodes_[i].of) last_used_[of] = i;
    double elements = 1;
    for (const int64_t size : layout_of(nodes_[i], 1).shape_on(blocks.grid().world().rank()))
      elements *= static_cast<double>(size);
    made_ += elements;
    most_made_ = std::max(most_made_, elements);
  }
  nn::initialize(*this, seed);
  for (const Node& node : nodes_)
    if (node.normaliser) node.normaliser->reset();
}

Network::~Network() = default;

size_t Network::index_of(const std::string& name) const {
  const auto found = std::ranges::find(nodes_, name, &Node::name);
  require(found != nodes_.end(), "layer '", nodes_.size() - 1, "': there is no layer '", name.substr(0, 60),
          "' before it");
  return static_cast<size_t>(found - nodes_.begin());
}

std::vector<nn::Parameter> Network::parameters_and_buffers() const {
  std::vector<nn::Parameter> all = nn::parameters_of(*this);
  for (const Node& node : nodes_) all.insert(all.end(), node.pieces.begin(), node.pieces.end());
  return all;
}

double Network::bytes_of_pass(int64_t batch, bool records) const {
  return (records ? made_ : most_made_) * static_cast<double>(batch) * static_cast<double>(c10::elementSize(type_));
}

void Network::zero_gradients() {
  for (const nn::Parameter& piece : parameters_and_buffers()) piece.tensor.mutable_grad().reset();
}

Layout Network::layout_of(const Node& node, int64_t batch) const {
  std::vector<int64_t> shape{batch * blocks_.members(), node.channels};
  shape.insert(shape.end(), node.space.begin(), node.space.end());
  return blocks_.rule()(shape);
}

Normaliser& Network::running_normaliser(const std::string& layer) const {
  const auto node = std::ranges::find(nodes_, layer, &Node::name);
  const bool is_one = node != nodes_.end() && node->normaliser && node->normaliser->is_running();
  require(is_one, "layer '", layer.substr(0, 60), "': expected one of type normalise without a given mean");
  return *node->normaliser;
}

const Normaliser* Network::output_normaliser() const {
  const Normaliser* last = nodes_.back().normaliser.get();
  return last && last->is_inverse() ? last : nullptr;
}

Layout Network::layout_of(const std::string& layer, int64_t batch) const {
  return layout_of(nodes_[index_of(layer)], batch);
}

Layout Network::output_layout(int64_t batch) const {
  return layout_of(nodes_.back(), batch);
}

DistributedTensor Network::input(int64_t batch) const {
  const Layout layout = input_layout(batch);
  const Node& first = nodes_[1];  // which can read nothing but the input
  const std::vector<Pads> room = first.room ? first.room(layout) : std::vector<Pads>();
  std::vector<int64_t> shape = layout.shape_on(blocks_.grid().world().rank());
  for (size_t d = 0; d < room.size(); ++d) shape[d] += room[d].left + room[d].right;
  const at::Tensor memory = at::empty(shape, at::TensorOptions(type_));
  return {.local = within(memory, room), .layout = layout, .grid = blocks_.grid(), .room = memory};
}

DistributedTensor Network::forward(const DistributedTensor& x) {
  std::vector<std::optional<DistributedTensor>> made(nodes_.size());
  made[0] = x;
  for (size_t i = 1; i < nodes_.size(); ++i) {
    std::vector<DistributedTensor> read;
    for (const size_t of : nodes_[i].of) read.push_back(*made[of]);
    for (const size_t of : nodes_[i].of) last_used_[of] == i ? made[of].reset() : made[of]->room.reset();
    made[i] = nodes_[i].apply(read);
  }
  const Layout output = output_layout(x.layout.shape()[0] / blocks_.members());
  return made.back()->layout == output ? *made.back() : move(*made.back(), output);
}

}  // namespace adjoin::insitu
