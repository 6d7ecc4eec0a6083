#include "adjoin/nn/distributed/embedding.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/held.hpp"

namespace adjoin::nn {
namespace {

std::string name_of(const EmbeddingOptions& options) {
  return "Embedding(" + std::to_string(options.num_embeddings()) + ", " + std::to_string(options.embedding_dim()) + ")";
}

/// The padding index, counted from 0.
std::optional<int64_t> padding_of(const EmbeddingOptions& options) {
  const auto padding = options.padding_idx();
  return padding && *padding < 0 ? *padding + options.num_embeddings() : padding;
}

Layout checked_weight(const EmbeddingOptions& options, const LayerLayouts& placement, const Grid& grid) {
  const int64_t words = options.num_embeddings();
  require(words >= 1 && options.embedding_dim() >= 1,
          [&] { return name_of(options) + ": expected at least 1 word and 1 feature"; });
  const auto padding = padding_of(options);
  require(!padding || (*padding >= 0 && *padding < words), [&] {
    return name_of(options) + ": expected a padding index from " + std::to_string(-words) + " to " +
           std::to_string(words - 1) + ", got " + std::to_string(*options.padding_idx());
  });
  require(!options.max_norm() && !options.scale_grad_by_freq() && !options.sparse() && !options._weight().defined(),
          [&] { return name_of(options) + ": expected none of max_norm, scale_grad_by_freq, sparse and _weight"; });
  return weight_layout(name_of(options), "a weight of shape ", placement,
                       layout_copied_on(grid.shape(), {words, options.embedding_dim()}));
}

}  // namespace

at::Tensor look_up_here(const at::Tensor& ids, const at::Tensor& weight, const at::Tensor& places,
                        int64_t padding_place) {
  if (weight.size(0) == 0) {  // zeros that are in the graph
    std::vector<int64_t> shape = ids.sizes().vec();
    shape.push_back(weight.size(1));
    return weight.sum(0).expand(shape);
  }
  const at::Tensor place = places.to(ids.device()).take(ids);
  return at::embedding(weight, place.clamp_min(0), padding_place).masked_fill((place < 0).unsqueeze(-1), 0);
}

EmbeddingImpl::EmbeddingImpl(const EmbeddingOptions& o, const LayerLayouts& placement, const Grid& grid)
    : options(o),
      weight_layout_(checked_weight(o, placement, grid)),
      division_(division_of(name_of(o), weight_layout_, /*out_dim=*/1, /*in_dim=*/0)),
      output_(placement.output),
      prepared_(name_of(o), grid) {
  register_piece(weight_, "weight", {weight_layout_, grid, Initial::normal(1)}, placement.tensor);
}

EmbeddingImpl::Prepared EmbeddingImpl::prepare(const Layout& input) const {
  std::vector<int64_t> shape = input.shape();
  const int64_t last = input.dims();
  shape.push_back(options.embedding_dim());
  std::vector<RowDim> dims;
  for (int64_t dim = 0; dim < last; ++dim) dims.push_back({dim});
  std::optional<Layout> output;
  if (output_) output = output_(shape);

  const RowCuts rows = cut_rows(division_, dims, input, output);
  std::map<std::string, Kind> kinds = rows.kinds;
  for (const auto* axes : {&division_.in, &division_.out})
    for (const std::string& axis : *axes) kinds[axis] = Kind::copied;
  const Layout read(division_.grid, input.shape(), rows.cuts, std::move(kinds));
  const Layout made = work_layout(division_, rows, shape, {weight_layout_.split(1).along(last), division_.out},
                                  division_.in, Kind::partial);

  const Grid& grid = prepared_.grid();
  const at::Tensor places = places_held(weight_layout_, /*dim=*/0, grid.world().rank());
  const auto padding = padding_of(options);
  const int64_t padding_place = padding ? places[*padding].item<int64_t>() : -1;
  const auto kernel = [places, padding_place](const at::Tensor& ids, at::TensorList parameters) {
    return look_up_here(ids, parameters[0], places, padding_place);
  };
  const std::vector<Window> windows(input.shape().size());
  HaloPlan halo = plan_halo(input.shape(), read, windows, Padding::zeros);
  const Layout ids = summed(input);
  return {Route(input, {std::move(halo), made, output ? *output : summed(made), kernel}, grid), Move(input, ids, grid),
          Total(ids, {1}, on_all_workers(ids.grid(), grid, {1}), grid)};
}

DistributedTensor EmbeddingImpl::forward(const DistributedTensor& ids) {
  require(ids.local.scalar_type() == at::kLong,
          [&] { return name_of(options) + ": expected ids of int64, got " + c10::toString(ids.local.scalar_type()); });
  const Prepared& prepared = prepared_.of(ids.layout, [this](const Layout& input) { return prepare(input); });
  const at::Tensor here = prepared.read(ids.local);
  const at::Tensor wrong = (here < 0).logical_or(here >= options.num_embeddings()).sum().view({1});
  const auto wrong_ones = prepared.wrong(wrong).item<int64_t>();
  require(wrong_ones == 0, [&] {
    return name_of(options) + ": expected ids from 0 to " + std::to_string(options.num_embeddings() - 1) + "; " +
           std::to_string(wrong_ones) + (wrong_ones == 1 ? " is not" : " are not") + "; the input is " +
           ids.layout.to_string();
  });
  return prepared.route(ids, {weight_});
}

}  // namespace adjoin::nn
