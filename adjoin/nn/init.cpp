#include "adjoin/nn/init.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/native/Math.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/philox.hpp"
#include "adjoin/nn/fill.hpp"

namespace adjoin::nn::init {
namespace {

void check_init(const Parameter& parameter, const char* what, int64_t least_dims = 0) {
  require(at::isFloatingType(parameter.tensor.scalar_type()), [&] {
    return std::string(what) + ": parameter '" + parameter.name + "' is of " +
           c10::toString(parameter.tensor.scalar_type()) + ", expected floats";
  });
  require(parameter.layout.dims() >= least_dims, [&] {
    return std::string(what) + ": expected at least " + std::to_string(least_dims) + " dims, parameter '" +
           parameter.name + "' is " + parameter.layout.to_string();
  });
}

void fill_with(const Parameter& parameter, const NumbersOf& numbers) {
  const at::NoGradGuard no_gradient;
  fill_piece(parameter.tensor, parameter.layout, parameter.grid.world().rank(), numbers);
}

/// Numbers in [0, 1) of 53 bits, two from each block; the third word separates them from the stream's normal numbers.
void draw_uniform(std::span<double> out, PhiloxKey key, int64_t first) {
  for (size_t i = 0; i < out.size(); ++i) {
    const auto index = static_cast<uint64_t>(first) + i;
    const uint64_t block = index / 2;
    const PhiloxCounter words = philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 1, 0}, key);
    const size_t half = 2 * (index % 2);
    const uint64_t bits = (static_cast<uint64_t>(words[half] >> 5) << 26) | (words[half + 1] >> 6);
    out[i] = static_cast<double>(bits) * 0x1p-53;
  }
}

struct Fans {
  double in = 1, out = 1;
};

Fans fans_of(const std::vector<int64_t>& shape) {
  const double field = std::accumulate(shape.begin() + 2, shape.end(), 1.0, std::multiplies<>());
  return {field * static_cast<double>(shape[1]), field * static_cast<double>(shape[0])};
}

double kaiming_deviation(const Parameter& parameter, double a, const FanModeType& mode,
                         const NonlinearityType& nonlinearity) {
  const Fans fans = fans_of(parameter.layout.shape());
  const bool by_inputs = std::holds_alternative<torch::enumtype::kFanIn>(mode);
  return torch::nn::init::calculate_gain(nonlinearity, a) / std::sqrt(by_inputs ? fans.in : fans.out);
}

double xavier_deviation(const Parameter& parameter, double gain) {
  const Fans fans = fans_of(parameter.layout.shape());
  return gain * std::sqrt(2 / (fans.in + fans.out));
}

/// Uniform numbers with this standard deviation.
void uniform_of(const Parameter& parameter, uint64_t seed, double deviation) {
  const double bound = std::sqrt(3.0) * deviation;
  uniform_(parameter, seed, -bound, bound);
}

double dot(std::span<const double> a, std::span<const double> b) {
  double sums[4] = {};
  for (size_t i = 0; i < a.size(); ++i) sums[i % 4] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// Makes consecutive vectors of `length` orthonormal; there may be at most `length` of them.
void orthonormalise(std::vector<double>& vectors, size_t length) {
  const auto vector = [&](size_t v) { return std::span(vectors).subspan(v * length, length); };
  for (size_t v = 0; v * length < vectors.size(); ++v) {
    const std::span<double> mine = vector(v);
    for (int time = 0; time < 2; ++time)
      for (size_t other = 0; other < v; ++other) {
        const std::span<const double> unit = vector(other);
        const double along = dot(mine, unit);
        for (size_t i = 0; i < length; ++i) mine[i] -= along * unit[i];
      }
    const double norm = std::sqrt(dot(mine, mine));
    for (double& number : mine) number /= norm;
  }
}

}  // namespace

void uniform_(const Parameter& parameter, uint64_t seed, double low, double high) {
  check_init(parameter, "uniform_");
  fill_with(parameter, [=, key = philox_key(seed, parameter.name)](std::span<double> out, int64_t first) {
    draw_uniform(out, key, first);
    for (double& number : out) number = low + (high - low) * number;
  });
}

void normal_(const Parameter& parameter, uint64_t seed, double mean, double std) {
  check_init(parameter, "normal_");
  fill_with(parameter, [=, key = philox_key(seed, parameter.name)](std::span<double> out, int64_t first) {
    philox_normal(out, key, first);
    for (double& number : out) number = mean + std * number;
  });
}

void trunc_normal_(const Parameter& parameter, uint64_t seed, double mean, double std, double low, double high) {
  check_init(parameter, "trunc_normal_");
  require(low < high && std > 0, [&] {
    return "trunc_normal_: expected low < high and a deviation above 0, got " + std::to_string(low) + ", " +
           std::to_string(high) + " and " + std::to_string(std);
  });
  const double scale = std * std::numbers::sqrt2;
  const double least = std::erf((low - mean) / scale), most = std::erf((high - mean) / scale);
  fill_with(parameter, [=, key = philox_key(seed, parameter.name)](std::span<double> out, int64_t first) {
    draw_uniform(out, key, first);
    for (double& number : out)
      number = std::clamp(mean + scale * calc_erfinv(least + (most - least) * number), low, high);
  });
}

void xavier_uniform_(const Parameter& parameter, uint64_t seed, double gain) {
  check_init(parameter, "xavier_uniform_", 2);
  uniform_of(parameter, seed, xavier_deviation(parameter, gain));
}

void xavier_normal_(const Parameter& parameter, uint64_t seed, double gain) {
  check_init(parameter, "xavier_normal_", 2);
  normal_(parameter, seed, 0, xavier_deviation(parameter, gain));
}

void kaiming_uniform_(const Parameter& parameter, uint64_t seed, double a, FanModeType mode,
                      NonlinearityType nonlinearity) {
  check_init(parameter, "kaiming_uniform_", 2);
  uniform_of(parameter, seed, kaiming_deviation(parameter, a, mode, nonlinearity));
}

void kaiming_normal_(const Parameter& parameter, uint64_t seed, double a, FanModeType mode,
                     NonlinearityType nonlinearity) {
  check_init(parameter, "kaiming_normal_", 2);
  normal_(parameter, seed, 0, kaiming_deviation(parameter, a, mode, nonlinearity));
}

void orthogonal_(const Parameter& parameter, uint64_t seed, double gain) {
  check_init(parameter, "orthogonal_", 2);
  const std::vector<int64_t>& shape = parameter.layout.shape();
  const auto rows = static_cast<size_t>(shape[0]);
  size_t columns = 1;
  for (size_t dim = 1; dim < shape.size(); ++dim) columns *= static_cast<size_t>(shape[dim]);
  // The vectors are the rows if there are fewer rows than columns, else the columns; the drawn numbers are arranged
  // accordingly.
  const bool by_rows = rows <= columns;
  const size_t length = by_rows ? columns : rows;
  std::vector<double> vectors(rows * columns);
  philox_normal(vectors, philox_key(seed, parameter.name), 0);
  orthonormalise(vectors, length);
  fill_with(parameter, [&](std::span<double> out, int64_t first) {
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t place = static_cast<size_t>(first) + i;
      out[i] = gain * (by_rows ? vectors[place] : vectors[place % columns * rows + place / columns]);
    }
  });
}

}  // namespace adjoin::nn::init
