#include "adjoin/nn/state.hpp"

#include <ATen/core/grad_mode.h>

#include <array>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/move.hpp"

namespace adjoin::nn {
namespace {

Layout all_on(int rank, const Layout& layout) {
  return Layout(GridShape({{"one", 1}}, {rank}), layout.shape());
}

/// What is wrong with a state as one of these parameters; nothing where all fits.
std::string misfit(const State& state, const std::vector<Parameter>& parameters) {
  std::map<std::string, const Parameter*> known;
  for (const Parameter& parameter : parameters) known.emplace(parameter.name, &parameter);
  for (const auto& [name, tensor] : state)
    if (!known.contains(name)) return "scatter_state: the module has no tensor '" + name + "'";
  for (const auto& [name, parameter] : known) {
    const auto found = state.find(name);
    if (found == state.end()) return "scatter_state: there is no tensor '" + name + "'";
    const at::Tensor& tensor = found->second;
    if (tensor.sizes() != at::IntArrayRef(parameter->layout.shape()))
      return "scatter_state: tensor '" + name + "' is " + shape_text(tensor.sizes().vec()) + ", the module's is " +
             shape_text(parameter->layout.shape());
  }
  return "";
}

/// Throws on every worker of the world where `error`, which counts on `rank` alone, says something.
void refuse_together(const std::string& error, const Communicator& world, int rank) {
  std::array<int64_t, 1> size{static_cast<int64_t>(error.size())};
  world.broadcast(buffer(size), rank);
  if (size[0] == 0) return;
  std::string text = error;
  text.resize(static_cast<size_t>(size[0]));
  world.broadcast({text.data(), size[0], ElementType::uint8}, rank);
  throw InvalidArgument(text);
}

}  // namespace

at::Tensor gather_tensor(const at::Tensor& piece, const Layout& layout, const Grid& grid, int rank) {
  const at::NoGradGuard no_gradient;
  const Layout held = first_copy(layout);
  const bool gives = held.grid().cell_of(grid.world().rank()).has_value();
  return move(gives ? piece.detach() : piece.new_empty({0}), held, all_on(rank, layout), grid);
}

at::Tensor scatter_tensor(const at::Tensor& whole, const Layout& layout, const Grid& grid, int rank) {
  const at::NoGradGuard no_gradient;
  return move(grid.world().rank() == rank ? whole.detach() : whole.new_empty({0}), all_on(rank, layout), layout, grid);
}

State gather_state(const std::vector<Parameter>& parameters, int rank) {
  State state;
  for (const Parameter& p : parameters) {
    const at::Tensor whole = gather_tensor(p.tensor, p.layout, p.grid, rank);
    if (p.grid.world().rank() == rank) state.emplace(p.name, whole.clone());  // not a view of what training changes
  }
  return state;
}

void scatter_state(const State& state, const std::vector<Parameter>& parameters, int rank) {
  if (parameters.empty()) return;
  const at::NoGradGuard no_gradient;
  const Communicator& world = parameters.front().grid.world();
  const bool gives = world.rank() == rank;
  refuse_together(gives ? misfit(state, parameters) : "", world, rank);
  for (const Parameter& p : parameters) {
    const at::Tensor whole = gives ? state.at(p.name).to(p.tensor.scalar_type()) : p.tensor;
    const at::Tensor piece = scatter_tensor(whole, p.layout, p.grid, rank);
    if (piece.numel() > 0) p.tensor.copy_(piece);
  }
}

}  // namespace adjoin::nn
