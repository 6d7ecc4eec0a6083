#include "adjoin/nn/distributed/upsample.hpp"

#include <ATen/ops/_upsample_nearest_exact1d.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/upsample_nearest1d.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "adjoin/base/error.hpp"

namespace adjoin::nn {
namespace {

template <class Mode>
bool is(const InterpolateFuncOptions& options) {
  return std::holds_alternative<Mode>(options.mode());
}

bool is_nearest(const InterpolateFuncOptions& options) {
  return is<torch::enumtype::kNearest>(options) || is<torch::enumtype::kNearestExact>(options);
}

InterpolateFuncOptions interpolation_of(const UpsampleOptions& o) {
  InterpolateFuncOptions options;
  options.size(o.size()).scale_factor(o.scale_factor()).align_corners(o.align_corners());
  std::visit([&](auto mode) { options.mode(mode); }, o.mode());
  return options;
}

/// The number of dims of space that the mode requires; 0 if it works with any.
size_t space_dims_of(const InterpolateFuncOptions& options) {
  if (is<torch::enumtype::kLinear>(options)) return 1;
  if (is<torch::enumtype::kTrilinear>(options)) return 3;
  return is_nearest(options) ? 0 : 2;
}

Taps nearest_taps(int64_t inputs, int64_t outputs, std::optional<double> factor, bool is_exact, Range of) {
  const at::Tensor indices = at::arange(inputs, at::kDouble).view({1, 1, inputs});
  const auto kernel = [&](auto&&... a) {
    return is_exact ? at::_upsample_nearest_exact1d(a...) : at::upsample_nearest1d(a...);
  };
  const at::Tensor map = kernel(indices, at::IntArrayRef{outputs}, factor).view({-1}).to(at::kLong).contiguous();
  const auto* data = map.const_data_ptr<int64_t>();
  return {.index = {{data + of.begin, data + of.end}}, .weight = {}};
}

/// The position of output y among the inputs.
double source_of(int64_t y, double step, bool align_corners) {
  const auto place = static_cast<double>(y);
  return align_corners ? step * place : step * (place + 0.5) - 0.5;
}

Taps linear_taps(int64_t inputs, double step, bool align_corners, Range of) {
  Taps taps{.index = {{}, {}}, .weight = {{}, {}}};
  for (int64_t y = of.begin; y < of.end; ++y) {
    const double source = std::max(0.0, source_of(y, step, align_corners));
    const int64_t left = std::min(static_cast<int64_t>(source), inputs - 1);
    const double rest = source - static_cast<double>(left);
    taps.index[0].push_back(left);
    taps.index[1].push_back(std::min(left + 1, inputs - 1));
    taps.weight[0].push_back(1 - rest);
    taps.weight[1].push_back(rest);
  }
  return taps;
}

/// Cubic convolution with a = -0.75. Source: Keys, IEEE Transactions on Acoustics, Speech and Signal Processing 29 (1981)
double cubic(double distance) {
  constexpr double a = -0.75;
  const double x = std::abs(distance);
  return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

Taps cubic_taps(int64_t inputs, double step, bool align_corners, Range of) {
  Taps taps{.index = {{}, {}, {}, {}}, .weight = {{}, {}, {}, {}}};
  for (int64_t y = of.begin; y < of.end; ++y) {
    const double source = source_of(y, step, align_corners), left = std::floor(source);
    for (size_t tap = 0; tap < 4; ++tap) {
      const double place = left + static_cast<double>(tap) - 1;
      taps.index[tap].push_back(std::clamp<int64_t>(static_cast<int64_t>(place), 0, inputs - 1));
      taps.weight[tap].push_back(cubic(source - place));
    }
  }
  return taps;
}

/// The taps of some outputs along a dim of space.
Taps taps_of(const InterpolateFuncOptions& options, size_t dim, int64_t inputs, int64_t outputs, Range of) {
  std::optional<double> factor;
  if (options.scale_factor()) factor = (*options.scale_factor())[dim];
  if (is_nearest(options)) {
    // As in LibTorch, the factor is not used for a picture whose size stays or doubles.
    const bool is_exact = is<torch::enumtype::kNearestExact>(options),
               keeps_or_doubles = outputs == inputs || outputs == 2 * inputs;
    if (factor && !is_exact && options.scale_factor()->size() == 2 && keeps_or_doubles) factor.reset();
    return nearest_taps(inputs, outputs, factor, is_exact, of);
  }
  const bool align = options.align_corners().value_or(false);
  const auto n = static_cast<double>(inputs), m = static_cast<double>(outputs);
  const double step = align ? (outputs > 1 ? (n - 1) / (m - 1) : 0) : factor ? 1 / *factor : n / m;
  if (is<torch::enumtype::kBicubic>(options)) return cubic_taps(inputs, step, align, of);
  // As in LibTorch, the factor is not used where the size stays.
  return inputs == outputs ? linear_taps(inputs, 1, /*align_corners=*/true, of) : linear_taps(inputs, step, align, of);
}

Route upsample_route(const InterpolateFuncOptions& options, const Layout& input, const LayoutRule& rule,
                     const Grid& grid) {
  const std::vector<int64_t>& inputs = input.shape();
  const size_t given = options.size() ? options.size()->size() : options.scale_factor()->size();
  const size_t wanted = space_dims_of(options) > 0 ? space_dims_of(options) : given;
  require(inputs.size() == wanted + 2 && given == wanted, [&] {
    return "expected [batch, channels, *space] with " + std::to_string(wanted) +
           " dims of space and as many sizes or factors, got " + std::to_string(inputs.size()) + " dims and " +
           std::to_string(given) + (options.size() ? " sizes" : " factors");
  });
  constexpr size_t space = 2;
  std::vector<int64_t> shape = inputs;
  for (size_t d = 0; d < wanted; ++d) {
    shape[space + d] =
        options.size()
            ? (*options.size())[d]
            : static_cast<int64_t>(std::floor(static_cast<double>(inputs[space + d]) * (*options.scale_factor())[d]));
    require(inputs[space + d] >= 1 && shape[space + d] >= 1, [&] {
      return "expected at least 1 input and output in each dim of space, got " + std::to_string(inputs[space + d]) +
             " and " + std::to_string(shape[space + d]) +
             (options.size() ? "" : " by a factor of " + std::to_string((*options.scale_factor())[d]));
    });
  }
  const auto [made, output] = output_place(input, shape, space, rule);
  HaloPlan read = plan_needed(inputs, made, space, [&](size_t dim, Range of) {
    return read_by(taps_of(options, dim - space, inputs[dim], shape[dim], of));
  });
  std::vector<Taps> dims;
  const std::vector<Range> mine = space_made_here(made, space, grid);
  for (size_t d = 0; d < mine.size(); ++d)
    if (mine[d].size() > 0) dims.push_back(taps_of(options, d, inputs[space + d], shape[space + d], mine[d]));
  const auto kernel = [interpolation = Interpolation(dims)](const at::Tensor& x, at::TensorList) {
    return interpolation(x);
  };
  return Route(input, {std::move(read), made, output, kernel}, grid);
}

}  // namespace

UpsampleImpl::UpsampleImpl(const UpsampleOptions& o, const Grid& grid, LayoutRule output)
    : UpsampleImpl(interpolation_of(o), grid, std::move(output)) {}

UpsampleImpl::UpsampleImpl(const InterpolateFuncOptions& o, const Grid& grid, LayoutRule output)
    : WeightlessImpl(
          "Upsample", grid,
          [=, rule = std::move(output)](const Layout& input) { return upsample_route(o, input, rule, grid); }),
      options(o) {
  require(
      o.size().has_value() != o.scale_factor().has_value(),
      "Upsample: expected either a size or a scale factor, got " + std::string(o.size() ? "both" : "neither of them"));
  require(!is_nearest(o) || !o.align_corners().has_value(), "Upsample: expected no align_corners with nearest");
  require(!is<torch::enumtype::kArea>(o) && !o.antialias() && !o.recompute_scale_factor().value_or(false),
          "Upsample: expected a mode other than area, without antialias and recompute_scale_factor");
}

}  // namespace adjoin::nn
