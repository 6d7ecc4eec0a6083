#include "adjoin/nn/distributed/dropout.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>

#include <memory>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/dropout.hpp"

namespace adjoin::nn {
namespace {

/// Whether a layer drops anything of x. The caller must give x a step: without one every step would have the same mask.
bool drops(const std::string& name, const DropoutOptions& options, bool is_training, const DistributedTensor& x) {
  if (!is_training || options.p() == 0) return false;
  require(x.step.has_value(), [&] {
    return "Dropout '" + name +
           "': expected an input with a step, from which the layer computes its masks in training, got none; set " +
           "x.step = Step{.seed = …, .number = …, .training = true}";
  });
  return x.step->training;
}

/// The place of each row of a piece in the global tensor, in order: the sample, and the place among the sample's rows. A row is
/// a run along the last dim; a tensor of one dim has one row for each sample.
struct RowPlace {
  int64_t sample = 0, row = 0;
};

std::vector<RowPlace> places_of_rows(const std::vector<int64_t>& shape, const std::vector<std::vector<Range>>& ranges) {
  std::vector<RowPlace> places{{}};
  for (size_t dim = 0; dim + 1 < shape.size(); ++dim) {
    std::vector<RowPlace> finer;
    for (const RowPlace& place : places)
      for (const Range& range : ranges[dim])
        for (int64_t i = range.begin; i < range.end; ++i)
          finer.push_back(dim == 0 ? RowPlace{i, 0} : RowPlace{place.sample, place.row * shape[dim] + i});
    places = std::move(finer);
  }
  return places;
}

/// Applies the mask to the piece of a tensor of at least two dims, run by run of the last dim.
at::Tensor dropped(const at::Tensor& x, double p, const std::string& name, const std::vector<int64_t>& shape,
                   const std::vector<std::vector<Range>>& ranges, const Step& step) {
  const PhiloxKey key = philox_key(step.seed, name);
  const auto places = std::make_shared<const std::vector<RowPlace>>(places_of_rows(shape, ranges));
  std::vector<at::Tensor> runs;
  int64_t begin = 0;
  for (const Range& run : ranges.back()) {
    const auto words = [=, first = static_cast<uint32_t>(run.begin)](int64_t r) {
      const RowPlace& place = (*places)[static_cast<size_t>(r)];
      return MaskRow{key, first, static_cast<uint32_t>(place.row),
                     static_cast<uint32_t>(step.first_sample + place.sample), static_cast<uint32_t>(step.number)};
    };
    runs.push_back(dropout_rows(x.narrow(-1, begin, run.size()), p, words));
    begin += run.size();
  }
  return runs.empty() ? x : runs.size() == 1 ? runs[0] : at::cat(runs, -1);
}

}  // namespace

template <bool of_channels>
DropoutOf<of_channels>::DropoutOf(const DropoutOptions& o, std::string name) : options(o), name_(std::move(name)) {
  require(o.p() >= 0 && o.p() <= 1,
          [&] { return "Dropout '" + name_ + "': expected a probability in [0, 1], got " + std::to_string(o.p()); });
}

template <bool of_channels>
DistributedTensor DropoutOf<of_channels>::forward(const DistributedTensor& x) {
  constexpr size_t kLeastDims = of_channels ? 2 : 1;
  std::vector<int64_t> shape = x.layout.shape();
  require(x.layout.is_exact() && shape.size() >= kLeastDims, [&] {
    return "Dropout '" + name_ + "': expected exact splits and at least " + std::to_string(kLeastDims) +
           " dims; the input is " + x.layout.to_string();
  });
  const auto cell = x.layout.grid().cell_of(x.grid.world().rank());
  if (!drops(name_, options, is_training(), x) || !cell) return x;
  if (options.p() == 1) return {x.local * 0, x.layout, x.grid, x.step};
  std::vector<std::vector<Range>> ranges = x.layout.ranges_of(*cell);
  const auto masked = [&](const at::Tensor& piece) {
    return dropped(piece, options.p(), name_, shape, ranges, *x.step);
  };
  at::Tensor y;
  if (of_channels) {
    shape.resize(2);
    ranges.resize(2);
    at::Tensor mask = masked(at::ones({x.local.size(0), x.local.size(1)}, x.local.options().requires_grad(false)));
    while (mask.dim() < x.local.dim()) mask = mask.unsqueeze(-1);
    y = x.local * mask;
  } else if (shape.size() > 1) {
    y = masked(x.local);
  } else {
    shape.push_back(1);  // one feature for each sample
    ranges.push_back({{0, 1}});
    y = masked(x.local.unsqueeze(-1)).squeeze(-1);
  }
  return {y, x.layout, x.grid, x.step};
}

template class DropoutOf<false>;
template class DropoutOf<true>;

}  // namespace adjoin::nn
