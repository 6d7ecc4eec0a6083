#include <torch/csrc/autograd/graph_task.h>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/dropout.hpp"
#include "adjoin/nn/rules/operation.hpp"

namespace adjoin::nn::rules {
namespace {

/// Masks are drawn by the step and the number of random operations since it began: they are the same in every layout.
template <class Layer>
at::Tensor masked(const at::Tensor& x, const Layout& layout, double p, const std::string& name, GlobalGrid& home) {
  require(home.step.has_value(), [&] {
    return name + ": expected a step by which to draw; call forward of what distribute returned, or its begin";
  });
  require(home.draws_again || torch::autograd::get_current_graph_task_id() < 0, [&] {
    return name +
           ": expected a forward pass, but backward computes it again and would draw other numbers; use recomputed, "
           "or in Python give torch.utils.checkpoint the context_fn of what distribute returned";
  });
  Step step = *home.step;
  step.training = true;
  Layer layer(DropoutOptions(p), "operation " + std::to_string(home.drawn++));
  return layer.forward({x, layout, home.grid, step}).local;
}

template <class Layer>
std::vector<Way> dropout(const Operation& operation) {
  const double p = operation.arguments[1].toDouble();
  const Layout x = operation.operands[0].layout;
  Way way{.reads = {x}, .makes = {x}};
  if (!operation.arguments[2].toBool() || p == 0) return {std::move(way)};
  way.kernel = [p, x, name = operation.name(), home = &operation.home](Arguments arguments) {
    return std::vector<at::Tensor>{masked<Layer>(arguments[0].toTensor(), x, p, name, *home)};
  };
  return {std::move(way)};
}

}  // namespace

at::Tensor dropped(const at::Tensor& x, const Layout& layout, double p, const std::string& name, GlobalGrid& home) {
  return masked<DropoutImpl>(x, layout, p, name, home);
}

Table random_rules() {
  return {{{"dropout"}, dropout<DropoutImpl>}, {{"feature_dropout"}, dropout<ChannelDropoutImpl>}};
}

}  // namespace adjoin::nn::rules
