#include "tests/support/layers.hpp"

#include "adjoin/base/error.hpp"
#include "adjoin/movement/check_gradients.hpp"

#include <torch/csrc/autograd/autograd.h>

#include "tests/support/adjoint.hpp"
#include "tests/support/odd_memory.hpp"
#include "tests/support/pieces.hpp"

namespace adjoin::testing {
namespace {

/// Where this worker stands among those along the axes of a kind; 0 where there is one.
int place_along(const Layout& layout, Kind kind, int cell) {
  const std::vector<int> coordinates = layout.grid().coordinates(cell);
  int place = 0;
  for (const std::string& axis : layout.axes(kind))
    place = place * layout.grid().axis_size(axis) + coordinates[static_cast<size_t>(layout.grid().axis_index(axis))];
  return place;
}

/// Of the tensor with a name in the twin, which may have none.
at::Tensor tensor_of(const torch::nn::Module& module, const std::string& name) {
  for (const auto& item : module.named_parameters())
    if (item.key() == name) return item.value();
  for (const auto& item : module.named_buffers())
    if (item.key() == name) return item.value();
  ADD_FAILURE() << "the twin has no tensor " << name;
  return {};
}

}  // namespace

DistributedTensor laid_out(const at::Tensor& global, const Layout& layout, const Grid& grid) {
  const auto cell = layout.grid().cell_of(grid.world().rank());
  if (!cell) return {at::empty({0}, global.options()), layout, grid};
  int summands = 1;
  for (const std::string& axis : layout.axes(Kind::partial)) summands *= layout.grid().axis_size(axis);
  const double share = place_along(layout, Kind::partial, *cell) > 0 ? -0.5 : 1 + 0.5 * (summands - 1);
  const at::Tensor piece = piece_of(global, layout, *cell);
  Numbers draw(hash_of(layout.to_string()) + static_cast<uint64_t>(*cell));
  return {in_odd_memory(summands > 1 ? piece * share : piece, draw).detach(), layout, grid};
}

at::Tensor whole_gradient(const DistributedTensor& x) {
  const at::Tensor& gradient = x.local.grad();
  return whole({gradient.defined() ? gradient : at::zeros_like(x.local), x.layout.dual(), x.grid});
}

void fill_both(const torch::nn::Module& layer, const torch::nn::Module& twin, const Communicator& world) {
  const at::NoGradGuard no_gradient;
  int64_t seed = 100;
  for (const at::Tensor& parameter : twin.parameters())
    parameter.copy_(random_tensor(parameter.sizes(), Kind::replicated, world, seed++));
  for (const nn::Parameter& p : nn::parameters_of(layer)) {
    const at::Tensor global = tensor_of(twin, p.name);
    ASSERT_EQ(global.sizes().vec(), p.layout.shape()) << p.name;
    p.tensor.copy_(laid_out(global, p.layout, p.grid).local);
  }
}

void expect_close(const at::Tensor& found, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  EXPECT_TRUE(at::allclose(found, expected, 1e-11, 1e-11))
      << what << ": differs by " << (found - expected).abs().max().item<double>();
}

void expect_twin_parameters(const torch::nn::Module& layer, const torch::nn::Module& twin, bool gradients) {
  size_t count = 0;
  for (const nn::Parameter& p : nn::parameters_of(layer)) {
    ++count;
    if (gradients && p.is_buffer) continue;
    at::Tensor local = p.tensor.detach(), expected = tensor_of(twin, p.name).detach().to(local.scalar_type());
    if (gradients) {
      local = p.tensor.grad().defined() ? p.tensor.grad() : at::zeros_like(local);
      expected = tensor_of(twin, p.name).grad();
    }
    expect_close(whole({local, p.layout, p.grid}), expected, (gradients ? "gradient of " : "") + p.name);
  }
  EXPECT_EQ(count, twin.parameters().size() + twin.buffers().size());
}

namespace {

at::Tensor weights_of(const at::Tensor& twin, const DistributedTensor& y) {
  return random_tensor(twin.sizes(), Kind::replicated, y.grid.world(), 7);
}

/// This worker's part of the sum of y's elements with weights, each counted once over all workers.
at::Tensor weighted_sum(const DistributedTensor& y, const at::Tensor& weights) {
  const auto cell = y.layout.grid().cell_of(y.grid.world().rank());
  if (!cell) return y.local.sum();
  const double counts = place_along(y.layout, Kind::copied, *cell) == 0 ? 1 : 0;  // the others' copies serve nothing
  return (y.local * piece_of(weights, y.layout, *cell) * counts).sum();
}

/// Lets the gradient of y come in odd memory.
void with_odd_gradient(const at::Tensor& y) {
  if (!y.requires_grad()) return;
  y.register_hook([](const at::Tensor& gradient) {
    Numbers draw(static_cast<uint64_t>(gradient.numel()));
    return in_odd_memory(gradient, draw);
  });
}

void expect_not_accused(const at::Tensor& loss, const std::vector<KnownTensor>& known, const Grid& grid) {
  try {
    check_gradients(loss, known, {}, grid);
  } catch (const InvalidArgument& error) {
    ADD_FAILURE() << error.what();
  }
}

}  // namespace

void backward_from_both(const DistributedTensor& y, const at::Tensor& twin, const std::vector<KnownTensor>& known) {
  const at::Tensor weights = weights_of(twin, y);
  (twin * weights).sum().backward();
  const at::Tensor loss = weighted_sum(y, weights);
  std::vector<KnownTensor> all = known;
  all.push_back(known_tensor("output", y));
  with_odd_gradient(y.local);
  expect_not_accused(loss, all, y.grid);
  loss.backward();
}

bool is_cut_along_all_axes(const Layout& layout) {
  size_t cut = 0;
  for (const Layout::Cut& of_dim : layout.cuts()) cut += of_dim.axes.size();
  size_t wide = 0;
  for (const auto& axis : layout.grid().axes()) wide += layout.grid().axis_size(axis.name) > 1 ? 1 : 0;
  return layout.is_exact() && cut >= wide && layout.axes(Kind::partial).empty() && layout.axes(Kind::copied).empty();
}

void differentiate_each_gradient(const DistributedTensor& x, const DistributedTensor& y,
                                 const std::vector<at::Tensor>& parameters) {
  const at::Tensor of_y = at::ones_like(y.local).requires_grad_(true);
  std::vector<at::Tensor> inputs = parameters;
  inputs.push_back(x.local);
  const std::vector<at::Tensor> gradients =
      torch::autograd::grad({y.local}, inputs, {of_y}, /*retain_graph=*/true, /*create_graph=*/true);
  inputs.push_back(of_y);
  for (size_t i = 0; i < gradients.size(); ++i) {
    EXPECT_EQ(gradients[i].sizes(), inputs[i].sizes());
    torch::autograd::grad({gradients[i]}, inputs, {at::ones_like(gradients[i])}, /*retain_graph=*/true, {},
                          /*allow_unused=*/true);
  }
}

void penalise_both(const DistributedTensor& x, const DistributedTensor& y, const at::Tensor& twin_x,
                   const at::Tensor& twin_y) {
  const at::Tensor weights = weights_of(twin_y, y);
  const auto penalise = [](const at::Tensor& of, const at::Tensor& from) {
    const auto gradient = torch::autograd::grad({from}, {of}, {}, /*retain_graph=*/true, /*create_graph=*/true,
                                                /*allow_unused=*/true)[0];
    if (gradient.defined() && gradient.requires_grad()) gradient.square().sum().backward();
  };
  penalise(twin_x, (twin_y * weights * twin_y).sum());
  with_odd_gradient(y.local);
  penalise(x.local, weighted_sum({y.local * y.local, y.layout, y.grid}, weights));
}

}  // namespace adjoin::testing
