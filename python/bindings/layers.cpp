#include <torch/nn/options/loss.h>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/nn/distributed/class_loss.hpp"
#include "adjoin/nn/distributed/dropout.hpp"
#include "adjoin/nn/distributed/experts.hpp"
#include "adjoin/nn/distributed/interpolation.hpp"
#include "adjoin/nn/distributed/loss.hpp"
#include "adjoin/nn/distributed/upsample.hpp"
#include "adjoin/nn/sequence/attention.hpp"
#include "adjoin/nn/sequence/dot_product_attention.hpp"
#include "python/bindings/kinds.hpp"
#include "python/bindings/layer.hpp"

namespace adjoin::python {
namespace {

using namespace py::literals;
using at::Tensor;
using nn::LayoutRule;

/// Makes the layer of a kind.
struct MakeLayer {
  const Given& given;
  const nn::LayerLayouts& placement;
  const Grid& grid;
  std::optional<Layer>& made;

  template <class Here, class Twin, class Options>
  void operator()(const Options& options) const {
    const bool given_bias = !given.has("bias") || given.get<bool>("bias");  // of norms
    const Blocking blocking;                                                // groups that are new are made by all
    if constexpr (std::is_constructible_v<Here, const Options&, const nn::LayerLayouts&, const Grid&, bool>)
      made.emplace(layer_of(std::make_shared<Here>(options, placement, grid, given_bias)));
    else if constexpr (std::is_constructible_v<Here, const Options&, const nn::LayerLayouts&, const Grid&>)
      made.emplace(layer_of(std::make_shared<Here>(options, placement, grid)));
    else if constexpr (std::is_constructible_v<Here, const Options&, const Grid&, LayoutRule>)
      made.emplace(layer_of(std::make_shared<Here>(options, grid, placement.output)));
    else
      made.emplace(layer_of(std::make_shared<Here>(options, grid)));
  }
};

nn::UpsampleImpl upsample(const Given& g, const Grid& grid, const LayoutRule& output) {
  using Mode = nn::InterpolateFuncOptions::mode_t;
  nn::InterpolateFuncOptions options;
  options.size(g.maybe<std::vector<int64_t>>("size")).scale_factor(g.maybe<std::vector<double>>("scale_factor"));
  options.align_corners(g.maybe<bool>("align_corners")).recompute_scale_factor(g.maybe<bool>("recompute_scale_factor"));
  options.mode(g.choice<Mode>("mode", std::pair("nearest", torch::kNearest), std::pair("linear", torch::kLinear),
                              std::pair("bilinear", torch::kBilinear), std::pair("bicubic", torch::kBicubic),
                              std::pair("trilinear", torch::kTrilinear), std::pair("area", torch::kArea),
                              std::pair("nearest-exact", torch::kNearestExact)));
  return nn::UpsampleImpl(options, grid, output);
}

Layer make_layer(const std::string& kind, const py::dict& options, const Grid& grid,
                 const std::optional<Layout>& weight, const py::object& output, at::ScalarType dtype) {
  const Given g(kind, options);
  const nn::LayerLayouts placement{.weight = weight, .output = rule_of(output), .tensor = dtype};
  if (kind == "Upsample") return layer_of(std::make_shared<nn::UpsampleImpl>(upsample(g, grid, placement.output)));
  if (kind == "RMSNorm") {
    const auto rms = nn::RMSNormOptions(g.sizes("normalized_shape"))
                         .eps(g.maybe<double>("eps"))
                         .elementwise_affine(g.get<bool>("elementwise_affine"));
    return layer_of(std::make_shared<nn::RMSNormImpl>(rms, placement, grid));
  }
  std::optional<Layer> made;
  const auto circular = [&]<size_t D>() {
    using Pad = nn::PadOf<nn::CircularPadOptions<D>>;
    if (kind == "CircularPad" + std::to_string(D) + "d")
      made.emplace(layer_of(std::make_shared<Pad>(pad<nn::CircularPadOptions, D>(g), grid, placement.output)));
  };
  circular.template operator()<1>();
  circular.template operator()<2>();
  circular.template operator()<3>();
  if (made) return *made;
  require(visit_kind(kind, g, MakeLayer{g, placement, grid, made}), [&] { return "there is no layer '" + kind + "'"; });
  return *made;
}

Layer make_dropout(double p, const std::string& name, bool of_channels) {
  const nn::DropoutOptions options(p);
  if (of_channels) return layer_of(std::make_shared<nn::ChannelDropoutImpl>(options, name));
  return layer_of(std::make_shared<nn::DropoutImpl>(options, name));
}

template <class Impl, class Options>
Layer loss_of(const Options& options, const Grid& grid, const LayoutRule& output) {
  const auto module = std::make_shared<Impl>(options, grid, output);
  return Layer(module, {}, [module](const DistributedTensor& x, const DistributedTensor& target) {
    return module->forward(x, target);
  });
}

Layer make_loss(const std::string& kind, const py::dict& given, const Grid& grid, const py::object& rule) {
  const Given g(kind, given);
  const LayoutRule output = rule_of(rule);
  const auto reduced = [&]<class Options>(Options options) { return options.reduction(g.reduction<Options>()); };
  if (kind == "L1Loss") return loss_of<nn::L1LossImpl>(reduced(t::L1LossOptions()), grid, output);
  if (kind == "MSELoss") return loss_of<nn::MSELossImpl>(reduced(t::MSELossOptions()), grid, output);
  if (kind == "SmoothL1Loss")
    return loss_of<nn::SmoothL1LossImpl>(reduced(t::SmoothL1LossOptions()).beta(g.get<double>("beta")), grid, output);
  if (kind == "HuberLoss")
    return loss_of<nn::HuberLossImpl>(reduced(t::HuberLossOptions()).delta(g.get<double>("delta")), grid, output);
  if (kind == "PoissonNLLLoss")
    return loss_of<nn::PoissonNLLLossImpl>(reduced(t::PoissonNLLLossOptions())
                                               .log_input(g.get<bool>("log_input"))
                                               .full(g.get<bool>("full"))
                                               .eps(g.get<double>("eps")),
                                           grid, output);
  if (kind == "BCELoss")
    return loss_of<nn::BCELossImpl>(reduced(t::BCELossOptions()).weight(g.tensor("weight")), grid, output);
  if (kind == "BCEWithLogitsLoss")
    return loss_of<nn::BCEWithLogitsLossImpl>(
        reduced(t::BCEWithLogitsLossOptions()).weight(g.tensor("weight")).pos_weight(g.tensor("pos_weight")), grid,
        output);
  if (kind == "KLDivLoss")
    return loss_of<nn::KLDivLossImpl>(reduced(t::KLDivLossOptions()).log_target(g.get<bool>("log_target")), grid,
                                      output);
  if (kind == "NLLLoss")
    return loss_of<nn::NLLLossImpl>(
        reduced(t::NLLLossOptions()).weight(g.tensor("weight")).ignore_index(g.get<int64_t>("ignore_index")), grid,
        output);
  if (kind == "CrossEntropyLoss")
    return loss_of<nn::CrossEntropyLossImpl>(reduced(t::CrossEntropyLossOptions())
                                                 .weight(g.tensor("weight"))
                                                 .ignore_index(g.get<int64_t>("ignore_index"))
                                                 .label_smoothing(g.get<double>("label_smoothing")),
                                             grid, output);
  throw InvalidArgument("there is no loss '" + kind + "'");
}

nn::Activation activation_named(const std::string& text) {
  constexpr std::pair<const char*, nn::Activation> kActivations[] = {{"none", nn::Activation::none},
                                                                     {"gelu", nn::Activation::gelu},
                                                                     {"gelu_tanh", nn::Activation::gelu_tanh},
                                                                     {"tanh", nn::Activation::tanh},
                                                                     {"swiglu", nn::Activation::swiglu}};
  for (const auto& [name, activation] : kActivations)
    if (text == name) return activation;
  throw InvalidArgument("expected an activation: none, gelu, gelu_tanh, tanh or swiglu, got '" + text + "'");
}

Layer make_experts(const py::dict& given, const Grid& grid, const std::string& axis, const py::object& output) {
  const Given g("MixtureOfExperts", given);
  const nn::MixtureOfExpertsOptions options{.features = g.get<int64_t>("features"),
                                            .hidden_features = g.get<int64_t>("hidden_features"),
                                            .activation = activation_named(g.get<std::string>("activation")),
                                            .experts = g.get<int64_t>("experts"),
                                            .top_k = g.get<int64_t>("top_k"),
                                            .normalises_gates = g.get<bool>("normalises_gates"),
                                            .balance_loss = g.get<double>("balance_loss"),
                                            .z_loss = g.get<double>("z_loss"),
                                            .experts_axis = g.get<std::string>("experts_axis"),
                                            .tensor = g.get<at::ScalarType>("dtype")};
  const LayoutRule rule = rule_of(output);
  const Blocking blocking;
  return layer_of(std::make_shared<nn::DistributedMixtureOfExpertsImpl>(options, grid, axis, rule));
}

/// A layer of the models, of plain tensors.
struct PlainLayer {
  std::shared_ptr<torch::nn::Module> module;
  std::function<Tensor(const Tensor& x, const Step& step)> forward;
};

PlainLayer make_col_row(const py::dict& given, const Grid& grid, const std::string& axis) {
  const Given g("ColRow", given);
  const nn::ColRowOptions options{.in_features = g.get<int64_t>("in_features"),
                                  .hidden_features = g.get<int64_t>("hidden_features"),
                                  .out_features = g.get<int64_t>("out_features"),
                                  .bias = g.get<bool>("bias"),
                                  .activation = activation_named(g.get<std::string>("activation")),
                                  .dropout = g.get<double>("dropout"),
                                  .name = g.get<std::string>("name"),
                                  .tensor = g.get<at::ScalarType>("dtype")};
  const Blocking blocking;
  const auto module = std::make_shared<nn::ColRowImpl>(options, grid, axis);
  return {module, [module](const Tensor& x, const Step& step) { return module->forward(x, ForwardPass{step}); }};
}

nn::AttentionMethod method_named(const std::string& text) {
  if (text == "ring") return nn::AttentionMethod::ring;
  if (text == "gathered") return nn::AttentionMethod::gathered;
  if (text == "ulysses") return nn::AttentionMethod::ulysses;
  throw InvalidArgument("attention: expected a method: ring, gathered or ulysses, got '" + text + "'");
}

using PythonMask =
    std::function<std::optional<Tensor>(int64_t, std::pair<int64_t, int64_t>, std::pair<int64_t, int64_t>)>;

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const TokenRows& rows, const Communicator& group,
                 const std::string& method, std::optional<double> scale, bool causal, const PythonMask& mask,
                 double dropout, const std::string& name, int64_t first_head, const std::optional<Step>& step) {
  nn::AttentionOptions options{.method = method_named(method),
                               .scale = scale,
                               .causal = causal,
                               .dropout = dropout,
                               .name = name,
                               .first_head = first_head};
  if (mask)
    options.mask = [mask](int64_t sample, Range queries, Range keys) {
      return mask(sample, {queries.begin, queries.end}, {keys.begin, keys.end}).value_or(Tensor());
    };
  if (step) options.step = *step;
  return nn::attention(plain("attention", q), plain("attention", k), plain("attention", v), rows, group, options);
}

void bind_sequence(py::module_& m) {
  m.def("attention", &attention, "q"_a, "k"_a, "v"_a, "rows"_a, "group"_a, "method"_a = "ring", "scale"_a = py::none(),
        "causal"_a = false, "mask"_a = py::none(), "dropout"_a = 0.0, "name"_a = "", "first_head"_a = 0,
        "step"_a = py::none(), MayBlock(),
        "Each row's attention to the rows of its own sample, which lie on all ranks of the group.\n"
        "Shape:  q [rows, heads, size], k [rows, h, size], v [rows, h, value size] -> [rows, heads, value size]\n"
        "method: ring, gathered or ulysses; mask(sample, (begin, end) of queries, (begin, end) of keys) -> bool "
        "tensor, True where hidden\n"
        "Raises InvalidArgument for rows or tensors that do not fit.");
  using Taps = std::pair<std::vector<std::vector<int64_t>>, std::vector<std::vector<double>>>;
  py::class_<nn::Interpolation>(
      m, "Interpolation",
      "A linear map along each of the last dims of a piece, once differentiable and once more.\ntaps: of each dim, the "
      "index of each tap of each output, and the weights likewise, or [] where each output is one input")
      .def(py::init([](const std::vector<Taps>& dims) {
             std::vector<nn::Taps> taps;
             for (const auto& [index, weight] : dims) {
               require(!index.empty() && (weight.empty() || weight.size() == index.size()),
                       "Interpolation: expected indices and weights of each tap");
               for (size_t i = 0; i < index.size(); ++i)
                 require(index[i].size() == index[0].size() && (weight.empty() || weight[i].size() == index[0].size()),
                         "Interpolation: expected as many indices and weights of each tap as there are outputs");
               taps.push_back({index, weight});
             }
             return nn::Interpolation(taps);
           }),
           "taps"_a)
      .def(
          "__call__", [](const nn::Interpolation& f, const Tensor& x) { return f(plain("Interpolation", x)); }, "x"_a,
          MayBlock());
}

}  // namespace

DistributedTensor Layer::forward(const DistributedTensor& x, const std::vector<Tensor>& tensors, bool training) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].is_same(tensors_[i])) continue;
    auto* const owner = dynamic_cast<nn::ShardedModule*>(module_.get());
    require(owner != nullptr,
            [&] { return "'" + names_[i] + "' cannot be replaced by another tensor; write its values into it"; });
    owner->replace_piece(names_[i], tensors[i]);
    tensors_[i] = tensors[i];
  }
  if (module_->is_training() != training) module_->train(training);
  return forward_(x);
}

nn::LayoutRule rule_of(const py::object& rule) {
  if (rule.is_none()) return {};
  if (py::isinstance<Layout>(rule))
    return [layout = rule.cast<Layout>()](const std::vector<int64_t>&) { return layout; };
  return rule.cast<nn::LayoutRule>();
}

void bind_layers(py::module_& m) {
  py::class_<Layer, Owner<Layer>>(m, "Layer")
      .def("forward", &Layer::forward, "x"_a, "tensors"_a, "training"_a, MayBlock())
      .def("loss", &Layer::loss, "x"_a, "target"_a, MayBlock())
      .def("pieces", &Layer::pieces);
  m.def("make_layer", &make_layer);
  m.def("make_loss", &make_loss);
  m.def("make_dropout", &make_dropout);
  m.def("make_experts", &make_experts);
  py::class_<PlainLayer, Owner<PlainLayer>>(m, "PlainLayer")
      .def(
          "forward",
          [](const PlainLayer& layer, const Tensor& x, const Step& step) {
            return layer.forward(plain("ColRow", x), step);
          },
          "x"_a, "step"_a, MayBlock())
      .def("pieces", [](const PlainLayer& layer) { return nn::parameters_of(*layer.module); });
  m.def("make_col_row", &make_col_row);
  m.def(
      "balanced_over",
      [](const py::object& grid, std::vector<Axes> axes) { return nn::balanced_over(shape_of(grid), std::move(axes)); },
      "grid"_a, "axes"_a, "A rule: dim d in balanced parts over the axes[d] of a grid, replicated along all others.");
  m.def("on_one_worker", &nn::on_one_worker, "rank"_a, "A rule: all of a tensor on one rank.");
  m.def(
      "copied_on",
      [](const py::object& grid, std::vector<int64_t> shape, const Axes& replicated) {
        return nn::layout_copied_on(shape_of(grid), std::move(shape), replicated);
      },
      "grid"_a, "shape"_a, "replicated"_a = Axes(),
      "A tensor that each rank of a grid uses for its own part of the work.");
  bind_sequence(m);
}

}  // namespace adjoin::python
