#include "adjoin/nn/state.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <set>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/values.hpp"
#include "adjoin/movement/move.hpp"

namespace adjoin::nn {
namespace {

Layout all_on(int rank, const Layout& layout) {
  return Layout(GridShape({{"one", 1}}, {rank}), layout.shape());
}

/// The global tensor of a piece on one rank of the world, which may be a view of the piece; without elements on other ranks.
at::Tensor gather_tensor(const Parameter& piece, int rank) {
  const at::NoGradGuard no_gradient;
  const Layout held = first_copy(piece.layout);
  const bool gives = held.grid().cell_of(piece.grid.world().rank()).has_value();
  return move(gives ? piece.tensor.detach() : piece.tensor.new_empty({0}), held, all_on(rank, piece.layout),
              piece.grid);
}

/// How a state differs from these pieces; "" where all fits.
std::string wrong_with(const State& state, const std::vector<Parameter>& pieces) {
  Shapes shapes;
  for (const auto& [name, tensor] : state) shapes.emplace(name, tensor.sizes().vec());
  if (const auto name = first_unknown_tensor(shapes, pieces))
    return "scatter_state: the module has no tensor '" + *name + "'";
  const auto wrong = first_mismatch(shapes, pieces, "module");
  return wrong ? "scatter_state: " + *wrong : "";
}

}  // namespace

Parameter held_by_all(std::string name, at::Tensor number, const Grid& grid) {
  const GridShape world({{"world", grid.world().size()}});
  return {std::move(name), std::move(number), Layout(world, {}), grid, {}, /*is_buffer=*/true};
}

State gather_state(const std::vector<Parameter>& pieces, int rank) {
  State state;
  for (const Parameter& piece : pieces) {
    const at::Tensor whole = gather_tensor(piece, rank);
    if (piece.grid.world().rank() == rank)
      state.emplace(piece.name, whole.clone());  // not a view of a tensor that training changes
  }
  return state;
}

void scatter_state(const State& state, const std::vector<Parameter>& pieces, int rank) {
  if (pieces.empty()) return;
  const at::NoGradGuard no_gradient;
  const Communicator& world = pieces.front().grid.world();
  const bool gives = world.rank() == rank;
  const std::string wrong = text_from_rank(rank, gives ? wrong_with(state, pieces) : "", world);
  require(wrong.empty(), wrong);
  for (const Parameter& piece : pieces) {
    const at::Tensor whole =
        gives ? state.at(piece.name).detach().to(piece.tensor.scalar_type()) : piece.tensor.new_empty({0});
    const at::Tensor mine = move(whole, all_on(rank, piece.layout), piece.layout, piece.grid);
    if (mine.numel() > 0) piece.tensor.copy_(mine);
  }
}

std::optional<std::string> first_unknown_tensor(const Shapes& tensors, const std::vector<Parameter>& pieces) {
  std::set<std::string> known;
  for (const Parameter& piece : pieces) known.insert(piece.name);
  for (const auto& [name, shape] : tensors)
    if (!known.contains(name)) return name;
  return std::nullopt;
}

std::optional<std::string> first_mismatch(const Shapes& tensors, const std::vector<Parameter>& pieces,
                                          const std::string& owner) {
  Shapes shapes;
  for (const Parameter& piece : pieces) shapes.emplace(piece.name, piece.layout.shape());
  for (const auto& [name, shape] : shapes) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) return "there is no tensor '" + name + "'";
    if (found->second != shape)
      return "tensor '" + name + "' has shape " + shape_text(found->second) + ", but the " + owner + "'s has " +
             shape_text(shape);
  }
  return std::nullopt;
}

std::vector<Parameter> cloned(std::vector<Parameter> pieces) {
  for (Parameter& piece : pieces) piece.tensor = piece.tensor.detach().clone();
  return pieces;
}

void swap_tensors(const std::vector<Parameter>& pieces, const std::vector<Parameter>& others) {
  require(std::equal(pieces.begin(), pieces.end(), others.begin(), others.end(),
                     [](const Parameter& a, const Parameter& b) { return a.name == b.name && a.layout == b.layout; }),
          "swap_tensors: expected pieces of the same names and layouts");
  const at::NoGradGuard no_gradient;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const at::Tensor mine = pieces[i].tensor.clone();
    pieces[i].tensor.copy_(others[i].tensor);
    others[i].tensor.copy_(mine);
  }
}

}  // namespace adjoin::nn
