#include "adjoin/nn/distributed/experts.hpp"

#include <ATen/TensorOperators.h>

#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin::nn {
namespace {

constexpr const char* kName = "DistributedMixtureOfExperts";

const MixtureOfExpertsOptions& checked(const MixtureOfExpertsOptions& options, const Grid& grid) {
  require(grid.shape().cells() == grid.world().size(), [&] {
    return std::string(kName) + ": expected a grid of all " + std::to_string(grid.world().size()) +
           " workers of its world, got " + grid.shape().to_string();
  });
  require(!options.split_rows && options.samples_axis.empty(), [&] {
    return std::string(kName) +
           ": expected options without split_rows and samples_axis, because the layouts split rows and samples";
  });
  return options;
}

}  // namespace

DistributedMixtureOfExpertsImpl::DistributedMixtureOfExpertsImpl(const MixtureOfExpertsOptions& options,
                                                                 const Grid& grid, const std::string& axis,
                                                                 LayoutRule output)
    : axis_(axis),
      experts_(register_module("experts", MixtureOfExperts(checked(options, grid), grid, axis))),
      output_(std::move(output)),
      prepared_(kName, grid) {}

DistributedMixtureOfExpertsImpl::Prepared DistributedMixtureOfExpertsImpl::prepare(const Layout& input) const {
  const Grid& grid = prepared_.grid();
  const int64_t features = experts_->options().features;
  require(input.dims() >= 2 && input.shape().back() == features, [&] {
    return "expected [samples, *, " + std::to_string(features) + "], rows of " + std::to_string(features) + " features";
  });
  std::vector<std::string> axes;
  int workers = 1;
  for (const GridShape::Axis& other : grid.shape().axes())
    if (other.name != axis_) {
      axes.push_back(other.name);
      workers *= other.size;
    }
  const Split samples = Split::balanced(input.shape().front(), workers, 0);
  std::vector<Layout::Cut> cuts;
  if (!axes.empty()) cuts.push_back({samples, axes});
  const Layout read(grid.shape(), input.shape(), std::move(cuts));
  const Layout output = output_ ? output_(input.shape()) : summed(input);
  const std::vector<int64_t> here = read.shape_on(grid.world().rank());
  int64_t rows = 1;
  for (size_t dim = 1; dim + 1 < here.size(); ++dim) rows *= here[dim];
  const std::vector<int64_t> lengths(static_cast<size_t>(here.front()), rows);
  return {Move(input, read, grid), Move(read, output, grid), LocalTokenRows(TokenRows::balanced(lengths, 1)), output};
}

DistributedTensor DistributedMixtureOfExpertsImpl::forward(const DistributedTensor& x) {
  prepared_.check_type(x, parameters().front());
  const Prepared& prepared = prepared_.of(x.layout, [this](const Layout& input) { return prepare(input); });
  const at::Tensor here = prepared.read(x.local);
  const at::Tensor y = experts_->forward(here.reshape({prepared.rows.size(), here.size(-1)}),
                                         ForwardPass{x.step.value_or(Step{}), prepared.rows});
  return {prepared.write(y.view_as(here)), prepared.output, x.grid, x.step};
}

}  // namespace adjoin::nn
