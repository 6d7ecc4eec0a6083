#include "adjoin/nn/parameter.hpp"

#include <ATen/ops/full.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <limits>
#include <set>

#include "adjoin/base/error.hpp"
#include "adjoin/base/philox.hpp"
#include "adjoin/nn/fill.hpp"

namespace adjoin::nn {
namespace {

/// A tensor of a module, and its piece if a ShardedModule owns it.
struct Found {
  std::string name;
  at::Tensor tensor;
  const ShardedModule::Piece* piece;
  bool is_buffer;
  std::vector<int64_t> matrices;
};

template <class... Layers>
bool is_one_of(const torch::nn::Module& module) {
  return (... || (dynamic_cast<const Layers*>(&module) != nullptr));
}

/// The matrices of a tensor of LibTorch's layers.
std::vector<int64_t> matrices_of(const torch::nn::Module& module, const std::string& name, const at::Tensor& tensor) {
  namespace plain = torch::nn;  // adjoin::nn has layers of these names too
  const bool is_matrix =
      name == "weight" && tensor.dim() >= 2 &&
      is_one_of<plain::LinearImpl, plain::Conv1dImpl, plain::Conv2dImpl, plain::Conv3dImpl, plain::ConvTranspose1dImpl,
                plain::ConvTranspose2dImpl, plain::ConvTranspose3dImpl>(module);
  return is_matrix ? std::vector{tensor.size(0)} : std::vector<int64_t>();
}

void collect(const torch::nn::Module& module, const std::string& prefix, std::set<const void*>& known,
             std::vector<Found>& found) {
  const auto* owner = dynamic_cast<const ShardedModule*>(&module);
  const auto add = [&](const auto& items, bool is_buffer) {
    for (const auto& item : items) {
      if (!item.value().defined() || !known.insert(item.value().unsafeGetTensorImpl()).second) continue;
      const bool is_piece = owner != nullptr && owner->pieces().contains(item.key());
      found.push_back(
          {prefix + item.key(), item.value(), is_piece ? &owner->pieces().at(item.key()) : nullptr, is_buffer,
           is_piece ? owner->pieces().at(item.key()).matrices : matrices_of(module, item.key(), item.value())});
    }
  };
  add(module.named_parameters(/*recurse=*/false), false);
  add(module.named_buffers(/*recurse=*/false), true);
  for (const auto& child : module.named_children()) collect(*child.value(), prefix + child.key() + ".", known, found);
}

Parameter owned(const Found& f) {
  const ShardedModule::Piece& piece = *f.piece;
  return {f.name, f.tensor, piece.layout, piece.grid, piece.initial, f.is_buffer, f.matrices, piece.only_in_products};
}

std::vector<Parameter> parameters_of(const torch::nn::Module& module, const Grid* elsewhere,
                                     const std::vector<std::string>& replicated) {
  std::vector<Found> found;
  std::set<const void*> known;
  collect(module, "", known, found);
  std::vector<Parameter> parameters;
  for (const Found& f : found) {
    if (f.piece) {
      parameters.push_back(owned(f));
      continue;
    }
    require(elsewhere != nullptr, [&] {
      return "parameters_of: '" + f.name + "' has no layout, because no ShardedModule owns it; give the grid on " +
             "which such tensors are copied: parameters_of(module, grid)";
    });
    parameters.push_back({f.name, f.tensor, layout_copied_on(elsewhere->shape(), f.tensor.sizes().vec(), replicated),
                          *elsewhere, std::nullopt, f.is_buffer, f.matrices});
  }
  return parameters;
}

/// Normal numbers that are the same in every layout.
void fill_normal(const Parameter& parameter, PhiloxKey key) {
  fill_piece(parameter.tensor, parameter.layout, parameter.grid.world().rank(),
             [&](std::span<double> out, int64_t first) {
               philox_normal(out, key, first);
               for (double& number : out) number *= parameter.initial->deviation;
             });
}

}  // namespace

std::vector<int> ranks_of_copies(const Parameter& parameter) {
  const int rank = parameter.grid.world().rank();
  const GridShape& shape = parameter.layout.grid();
  return shape.cell_of(rank) ? shape.ranks_along(rank, parameter.layout.axes(Kind::copied)) : std::vector<int>();
}

Communicator copies_of(const Parameter& parameter) {
  const std::vector<int> ranks = ranks_of_copies(parameter);
  return ranks.size() <= 1 ? Communicator() : parameter.grid.group_of(ranks);
}

Layout layout_cut_along(const Grid& grid, const std::string& axis, std::vector<int64_t> shape,
                        std::optional<Split> split) {
  std::vector<Layout::Cut> cuts;
  std::map<std::string, Kind> kinds;
  for (const auto& other : grid.shape().axes()) kinds.emplace(other.name, Kind::copied);
  kinds.erase(grid.shape().axes()[static_cast<size_t>(grid.shape().axis_index(axis))].name);
  if (split) cuts.push_back({std::move(*split), {axis}});
  return Layout(grid.shape(), std::move(shape), std::move(cuts), std::move(kinds));
}

Layout layout_copied_on(const GridShape& grid, std::vector<int64_t> shape, const std::vector<std::string>& replicated) {
  std::map<std::string, Kind> kinds;
  for (const auto& axis : grid.axes()) kinds.emplace(axis.name, Kind::copied);
  for (const std::string& axis : replicated) kinds.erase(axis);
  return Layout(grid, std::move(shape), {}, std::move(kinds));
}

void check_piece(const std::string& name, const Layout& layout) {
  require(layout.is_exact() && layout.axes(Kind::partial).empty(), [&] {
    return "parameter '" + name + "': expected exact splits and no axis that is partial, got " + layout.to_string();
  });
}

at::Tensor& ShardedModule::register_piece(const std::string& name, Piece piece, const at::TensorOptions& options,
                                          bool is_buffer) {
  check_piece(name, piece.layout);
  const auto type = options.dtype().toScalarType();
  const at::Tensor unset = at::full(
      piece.layout.shape_on(piece.grid.world().rank()),
      at::isFloatingType(type) || at::isComplexType(type) ? std::numeric_limits<double>::quiet_NaN() : 0, options);
  pieces_.emplace(name, std::move(piece));
  return is_buffer ? register_buffer(name, unset) : register_parameter(name, unset);
}

void ShardedModule::register_piece(at::Tensor& member, const std::string& name, Piece piece,
                                   const at::TensorOptions& options, bool is_buffer) {
  member = register_piece(name, std::move(piece), options, is_buffer);
  members_.emplace(name, &member);
}

void ShardedModule::replace_piece(const std::string& name, const at::Tensor& tensor) {
  const auto member = members_.find(name);
  require(member != members_.end(), [&] { return "replace_piece: there is no piece '" + name + "' to replace"; });
  require(tensor.sizes() == member->second->sizes(), [&] {
    return "replace_piece: '" + name + "' is of shape " + shape_text(member->second->sizes().vec()) + ", got one of " +
           shape_text(tensor.sizes().vec());
  });
  *member->second = tensor;
}

std::vector<Parameter> parameters_of(const torch::nn::Module& module) {
  return parameters_of(module, nullptr, {});
}

std::vector<Parameter> parameters_of(const torch::nn::Module& module, const Grid& grid,
                                     const std::vector<std::string>& replicated) {
  return parameters_of(module, &grid, replicated);
}

std::vector<KnownTensor> known_tensors(const std::vector<Parameter>& parameters) {
  std::vector<KnownTensor> known;
  for (const Parameter& parameter : parameters)
    known.push_back({parameter.name, parameter.tensor, parameter.layout, parameter.grid.world()});
  return known;
}

void initialize(const torch::nn::Module& module, uint64_t seed) {
  std::vector<Found> found;
  std::set<const void*> known;
  collect(module, "", known, found);
  std::vector<Parameter> pieces;
  for (const Found& f : found)
    if (f.piece) pieces.push_back(owned(f));
  initialize(pieces, seed);
}

void initialize(const std::vector<Parameter>& parameters, uint64_t seed) {
  const at::NoGradGuard no_gradient;
  for (const Parameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    if (!parameter.initial) continue;
    switch (parameter.initial->kind) {
      case Initial::Kind::zeros:
        tensor.zero_();
        break;
      case Initial::Kind::ones:
        tensor.fill_(1);
        break;
      case Initial::Kind::normal:
        require(at::isFloatingType(tensor.scalar_type()), [&] {
          return "initialize: parameter '" + parameter.name + "' is of " + c10::toString(tensor.scalar_type()) +
                 ", expected floats for normal numbers";
        });
        fill_normal(parameter, philox_key(seed, parameter.name));
        break;
    }
  }
}

}  // namespace adjoin::nn
