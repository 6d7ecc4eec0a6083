#include "adjoin/insitu/layers.hpp"

#include <ATen/ATen.h>
#include <torch/nn/functional/upsampling.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <ranges>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/insitu/program_layer.hpp"
#include "adjoin/movement/global_tensor.hpp"
#include "adjoin/nn/distributed/batch_norm.hpp"
#include "adjoin/nn/distributed/conv.hpp"
#include "adjoin/nn/distributed/dropout.hpp"
#include "adjoin/nn/distributed/layer_norm.hpp"
#include "adjoin/nn/distributed/pool.hpp"
#include "adjoin/nn/distributed/upsample.hpp"

namespace adjoin::insitu {
namespace {

template <class Layer>
void use(Node& node, std::shared_ptr<Layer> layer) {
  node.apply = [layer](const std::vector<DistributedTensor>& x) { return layer->forward(x[0]); };
  node.module = std::move(layer);
}

std::vector<int64_t> numbers_of(const Fields& fields, const LayerSite& site, const char* key, int64_t otherwise) {
  auto numbers = fields.each<int64_t>(key, otherwise, 1, site.blocks.dims());
  if (site.blocks.order() == DimOrder::columns_first) std::ranges::reverse(numbers);
  if (site.blocks.are_points() && numbers[0] != 1) fields.refuse(key, "1, as points have no neighbours");
  return numbers;
}

/// The sizes of space that windows make.
std::vector<int64_t> made_by(const std::vector<Window>& windows, std::vector<int64_t> space) {
  for (size_t d = 0; d < windows.size(); ++d) space[d] = outputs_of(windows[d], space[d]);
  return space;
}

void convolve(const Fields& fields, const LayerSite& site, Node& node, nn::ConvGeometry geometry) {
  geometry.in_channels = node.channels;
  geometry.out_channels = node.channels = fields.integer("out", {}, 1);
  geometry.groups = fields.integer("groups", 1, 1);
  geometry.bias = fields.flag("bias", true);
  if (geometry.in_channels % geometry.groups != 0 || geometry.out_channels % geometry.groups != 0)
    fields.refuse("groups", "a number that divides the " + std::to_string(geometry.in_channels) +
                                " channels in and the " + std::to_string(geometry.out_channels) + " out");
  node.space = made_by(geometry.windows, node.space);
  const auto layer = std::make_shared<nn::ConvNdImpl>(
      geometry, nn::LayerLayouts{.output = site.blocks.rule(), .tensor = site.type}, site.blocks.grid());
  node.room = [layer](const Layout& input) { return layer->room(input); };
  use(node, layer);
}

void make_conv(const Fields& fields, const LayerSite& site, Node& node) {
  nn::ConvGeometry geometry{.name = "conv", .windows = {}, .edges = edges_of(fields, site.blocks, site.edges)};
  const auto kernel = numbers_of(fields, site, "kernel", 3), stride = numbers_of(fields, site, "stride", 1),
             dilation = numbers_of(fields, site, "dilation", 1);
  for (size_t d = 0; d < kernel.size(); ++d) {
    Window window{.kernel = kernel[d], .stride = stride[d], .dilation = dilation[d]};
    window.before = (window.extent() - 1) / 2;
    window.after = window.extent() - 1 - window.before;
    geometry.windows.push_back(window);
  }
  convolve(fields, site, node, std::move(geometry));
}

/// y = W x + b along a dim of space, which is whole: what moves is as the rule for products says (rules), and then to the blocks.
class DimLinear : public nn::ShardedModule {
 public:
  DimLinear(int64_t dim, int64_t in, int64_t out, bool has_bias, const LayerSite& site)
      : dim_(dim), grid_(site.blocks.grid()), rule_(site.blocks.rule()) {
    const nn::Initial initial = nn::Initial::normal(1 / std::sqrt(3.0 * static_cast<double>(in)));
    const auto copied = [&](std::vector<int64_t> sizes) { return nn::layout_copied_on(grid_.shape(), sizes); };
    register_piece(weight_, "weight", {copied({out, in}), grid_, initial, {out}}, site.type);
    if (has_bias) register_piece(bias_, "bias", {copied({out}), grid_, nn::Initial::zeros()}, site.type);
  }

  DistributedTensor forward(const DistributedTensor& x) {
    const auto whole = [&](const char* name, const at::Tensor& piece) {
      return global({piece, pieces().at(name).layout, grid_});
    };
    const auto bias = bias_.defined() ? std::optional(whole("bias", bias_)) : std::nullopt;
    return on_blocks(at::linear(global(x).movedim(dim_, -1), whole("weight", weight_), bias).movedim(-1, dim_), rule_,
                     x);
  }

 private:
  const int64_t dim_;
  const Grid grid_;
  const nn::LayoutRule rule_;
  at::Tensor weight_, bias_;
};

void make_linear(const Fields& fields, const LayerSite& site, Node& node) {
  if (!fields.has("dim"))
    return convolve(fields, site, node, {.name = "linear", .windows = std::vector<Window>(site.blocks.dims())});
  const int64_t dims = std::ssize(node.space), given = fields.integer("dim", {}, 0);
  if (given >= dims || site.blocks.are_points())
    fields.refuse("dim", "a dim of a domain with neighbours, from 0 to " + std::to_string(dims - 1));
  const int64_t dim = site.blocks.order() == DimOrder::columns_first ? dims - 1 - given : given;
  int64_t& size = node.space[static_cast<size_t>(dim)];
  const int64_t in = std::exchange(size, fields.integer("out", {}, 1));
  use(node, std::make_shared<DimLinear>(2 + dim, in, size, fields.flag("bias", true), site));
}

/// A transposed convolution whose kernels do not overlap; to the size of another layer where "like" names one.
void make_up(const Fields& fields, const LayerSite& site, Node& node) {
  nn::ConvGeometry geometry{.name = "up", .windows = {}};
  const std::string like = fields.word("like", "");
  const auto kernel = numbers_of(fields, site, "kernel", 2);
  for (size_t d = 0; d < kernel.size(); ++d) {
    Window window{.kernel = kernel[d], .stride = kernel[d], .transposed = true};
    const int64_t more = like.empty() ? 0 : site.node(like).space[d] - node.space[d] * kernel[d];
    window.output_padding = std::max<int64_t>(more, 0);
    window.after = std::max<int64_t>(-more, 0);
    if (std::abs(more) >= kernel[d])
      fields.refuse("like", "a layer whose size this kernel reaches from " + shape_text(node.space));
    geometry.windows.push_back(window);
  }
  convolve(fields, site, node, std::move(geometry));
}

void make_pool(const Fields& fields, const LayerSite& site, Node& node, bool is_max) {
  nn::PoolGeometry geometry{.name = is_max ? "maxpool" : "avgpool", .is_max = is_max};
  for (const int64_t kernel : numbers_of(fields, site, "kernel", 2))
    geometry.windows.push_back({.kernel = kernel, .stride = kernel});
  node.space = made_by(geometry.windows, node.space);
  use(node, std::make_shared<nn::WeightlessImpl>(geometry.name, site.blocks.grid(),
                                                 nn::plan_of(geometry, site.blocks.grid(), site.blocks.rule())));
}

void make_upsample(const Fields& fields, const LayerSite& site, Node& node) {
  const std::string like = fields.word("like", ""), mode = fields.word("mode", "nearest");
  const auto factor = numbers_of(fields, site, "factor", 2);
  for (size_t d = 0; d < factor.size(); ++d)
    node.space[d] = like.empty() ? node.space[d] * factor[d] : site.node(like).space[d];
  nn::InterpolateFuncOptions options;
  options.size(node.space);
  const nn::InterpolateFuncOptions::mode_t linear[] = {torch::kLinear, torch::kBilinear, torch::kTrilinear};
  if (mode == "linear") options.mode(linear[node.space.size() - 1]).align_corners(false);
  if (mode != "linear" && mode != "nearest") fields.refuse("mode", "nearest or linear");
  use(node, std::make_shared<nn::UpsampleImpl>(options, site.blocks.grid(), site.blocks.rule()));
}

void make_channel_norm(const Fields& fields, const LayerSite& site, Node& node, bool per_sample) {
  const nn::ChannelNormGeometry geometry{.name = per_sample ? "instancenorm" : "batchnorm",
                                         .space = site.blocks.dims(),
                                         .per_sample = per_sample,
                                         .features = node.channels,
                                         .eps = fields.number("eps", 1e-5, 0, 1),
                                         .momentum = fields.number("momentum", 0.1, 0, 1),
                                         .affine = fields.flag("affine", !per_sample),
                                         .tracks = !per_sample};
  use(node, std::make_shared<nn::ChannelNormImpl>(geometry, nn::LayerLayouts{.tensor = site.type}, site.blocks.grid()));
}

void make_group_norm(const Fields& fields, const LayerSite& site, Node& node) {
  const int64_t groups = fields.integer("groups", {}, 1);
  if (node.channels % groups != 0)
    fields.refuse("groups", "a number that divides the " + std::to_string(node.channels) + " channels");
  const nn::SampleNormGeometry geometry{.name = "groupnorm",
                                        .shape = {node.channels},
                                        .groups = groups,
                                        .eps = fields.number("eps", 1e-5, 0, 1),
                                        .affine = fields.flag("affine", true)};
  use(node, std::make_shared<nn::SampleNormImpl>(geometry, nn::LayerLayouts{.tensor = site.type}, site.blocks.grid()));
}

void make_normaliser(const Fields& fields, const LayerSite& site, Node& node) {
  std::optional<Normaliser::Moments> given;
  const auto channels = static_cast<size_t>(node.channels);
  if (fields.has("mean") || fields.has("deviation"))
    given = {fields.each<double>("mean", {}, -1e30, channels), fields.each<double>("deviation", {}, 1e-30, channels)};
  node.normaliser =
      std::make_shared<Normaliser>(node.channels, fields.flag("inverse", false), std::move(given), site.blocks.grid());
  node.module = node.normaliser;
  node.apply = [scales = node.normaliser](const std::vector<DistributedTensor>& x) {
    return map(x[0], [&](const at::Tensor& piece) { return scales->apply(piece); });
  };
}

void join(const Fields& fields, const LayerSite& site, Node& node, bool adds) {
  const auto described = [](const Node& of) {
    return "'" + of.name + "' has " + std::to_string(of.channels) + " channels of " + shape_text(of.space);
  };
  node.channels = adds ? node.channels : 0;
  for (const Node* input : site.inputs) {
    if (input->space != node.space || (adds && input->channels != node.channels))
      fields.refuse("of", "layers of one size" + std::string(adds ? " and as many channels" : "") + ", but " +
                              described(*site.inputs[0]) + " and " + described(*input));
    if (!adds) node.channels += input->channels;
  }
  node.apply = [adds](const std::vector<DistributedTensor>& x) {
    return adds ? std::accumulate(x.begin() + 1, x.end(), x[0]) : cat(x, 1);
  };
}

using Maker = std::function<void(const Fields&, const LayerSite&, Node&)>;

/// A layer that applies a function to each element.
Maker elementwise(at::Tensor (*function)(const at::Tensor&)) {
  return [function](const Fields&, const LayerSite&, Node& node) {
    node.apply = [function](const std::vector<DistributedTensor>& x) { return map(x[0], function); };
  };
}

const std::map<std::string, Maker>& makers() {
  static const std::map<std::string, Maker> all{
      {"add", [](const Fields& f, const LayerSite& s, Node& n) { join(f, s, n, /*adds=*/true); }},
      {"cat", [](const Fields& f, const LayerSite& s, Node& n) { join(f, s, n, /*adds=*/false); }},
      {"conv", make_conv},
      {"linear", make_linear},
      {"program", make_program},
      {"normalise", make_normaliser},
      {"up", make_up},
      {"upsample", make_upsample},
      {"avgpool", [](const Fields& f, const LayerSite& s, Node& n) { make_pool(f, s, n, /*is_max=*/false); }},
      {"maxpool", [](const Fields& f, const LayerSite& s, Node& n) { make_pool(f, s, n, /*is_max=*/true); }},
      {"batchnorm", [](const Fields& f, const LayerSite& s, Node& n) { make_channel_norm(f, s, n, false); }},
      {"instancenorm", [](const Fields& f, const LayerSite& s, Node& n) { make_channel_norm(f, s, n, true); }},
      {"groupnorm", make_group_norm},
      {"dropout",
       [](const Fields& f, const LayerSite&, Node& n) {
         use(n, std::make_shared<nn::DropoutImpl>(nn::DropoutOptions(f.number("p", 0.5, 0, 1)), n.name));
       }},
      {"relu", elementwise([](const at::Tensor& x) { return at::relu(x); })},
      {"leakyrelu", elementwise([](const at::Tensor& x) { return at::leaky_relu(x); })},
      {"elu", elementwise([](const at::Tensor& x) { return at::elu(x); })},
      {"gelu", elementwise([](const at::Tensor& x) { return at::gelu(x); })},
      {"silu", elementwise([](const at::Tensor& x) { return at::silu(x); })},
      {"softplus", elementwise([](const at::Tensor& x) { return at::softplus(x); })},
      {"sigmoid", elementwise([](const at::Tensor& x) { return at::sigmoid(x); })},
      {"tanh", elementwise([](const at::Tensor& x) { return at::tanh(x); })},
      {"identity", elementwise([](const at::Tensor& x) { return x; })}};
  return all;
}

/// What is beyond one end.
void set_end(const Fields& fields, const nlohmann::json& value, Padding& padding, double& number) {
  static const std::map<std::string, Padding> names{{"zeros", Padding::zeros},
                                                    {"periodic", Padding::circular},
                                                    {"replicate", Padding::replicate},
                                                    {"reflect", Padding::reflect}};
  const auto name = value.is_string() ? names.find(value.get<std::string>()) : names.end();
  if (value.is_number() && std::abs(value.get<double>()) <= std::numeric_limits<float>::max())
    number = value.get<double>();
  else if (name != names.end())
    padding = name->second;
  else
    fields.refuse("padding",
                  "zeros, periodic, replicate, reflect or a number of float32, or for each dim one of these or a pair");
}

}  // namespace

std::vector<Edges> edges_of(const Fields& fields, const Blocks& blocks, std::vector<Edges> otherwise) {
  const nlohmann::json* value = fields.value("padding");
  if (!value) return otherwise;
  const bool is_list = value->is_array();
  if (is_list && value->size() != blocks.dims())
    fields.refuse("padding", "one padding, or a list of " + std::to_string(blocks.dims()));
  std::vector<Edges> edges(blocks.dims());
  for (size_t d = 0; d < edges.size(); ++d) {
    const nlohmann::json& of_dim = is_list ? (*value)[d] : *value;
    const bool is_pair = is_list && of_dim.is_array() && of_dim.size() == 2;
    set_end(fields, is_pair ? of_dim[0] : of_dim, edges[d].before, edges[d].value_before);
    set_end(fields, is_pair ? of_dim[1] : of_dim, edges[d].after, edges[d].value_after);
    if (edges[d].is_circular() != (edges[d].after == Padding::circular))
      fields.refuse("padding", "both ends of a dim periodic, or none");
  }
  if (blocks.order() == DimOrder::columns_first) std::ranges::reverse(edges);
  return edges;
}

void make_layer(const Fields& fields, const LayerSite& site, Node& node) {
  const std::string type = fields.word("type", {});
  const auto maker = makers().find(type);
  if (maker == makers().end()) fields.refuse("type", "one of " + joined(std::views::keys(makers())));
  if (site.inputs.size() != 1 && type != "add" && type != "cat") fields.refuse("of", "one layer");
  node.channels = site.inputs[0]->channels;
  node.space = site.inputs[0]->space;
  maker->second(fields, site, node);
  fields.end();
}

}  // namespace adjoin::insitu
