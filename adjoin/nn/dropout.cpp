#include "adjoin/nn/dropout.hpp"

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cmath>
#include <memory>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/philox.hpp"
#include "adjoin/movement/linear_map.hpp"

namespace adjoin::nn {
namespace {

constexpr double kSteps = 65536;  // of a probability: masks are drawn from 16-bit words

void check_probability(double p) {
  require(p >= 0 && p < 1, [&] { return "dropout: expected a probability in [0, 1), got " + std::to_string(p); });
}

uint32_t word(int64_t coordinate) {
  return static_cast<uint32_t>(coordinate);
}

/// x with the mask applied whose row r (the last dim being a row) is drawn from `words(r)`.
at::Tensor mask_rows(const at::Tensor& x, double p, const std::function<RowOfWords(int64_t)>& words) {
  const at::Tensor in = x.contiguous();
  at::Tensor out = at::empty_like(in);
  if (in.numel() == 0) return out;
  const int64_t columns = in.size(-1), rows = in.numel() / columns;
  const DropoutSteps steps = dropout_steps(p);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, in.scalar_type(), "dropout", [&] {
    const auto scale = static_cast<at::opmath_type<scalar_t>>(steps.factor);
    const auto* from = in.const_data_ptr<scalar_t>();
    auto* to = out.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, rows, std::max<int64_t>(1, 16384 / columns), [&](int64_t begin, int64_t end) {
      std::vector<uint16_t> random(static_cast<size_t>(columns));
      for (int64_t r = begin; r < end; ++r) {
        const RowOfWords w = words(r);
        philox_row(random, w.key, w.first_column, w.row, w.plane, w.volume);
        const scalar_t* a = from + r * columns;
        scalar_t* b = to + r * columns;
        for (int64_t i = 0; i < columns; ++i)
          b[i] = random[static_cast<size_t>(i)] < steps.threshold ? scalar_t(0) : static_cast<scalar_t>(a[i] * scale);
      }
    });
  });
  return out;
}

}  // namespace

at::Tensor dropout_rows(const at::Tensor& x, double p, std::function<RowOfWords(int64_t)> words) {
  check_probability(p);
  const auto mask = [p, words = std::move(words)](const at::Tensor& t) { return mask_rows(t, p, words); };
  return apply({.forward = mask, .adjoint = mask}, x);
}

at::Tensor dropout(const at::Tensor& x, double p, const DropoutPlace& place, const StepContext& context) {
  check_probability(p);
  if (!context.training || p == 0) return x;
  require(x.dim() == 2, [&] { return "dropout: expected [rows, features], got " + std::to_string(x.dim()) + " dims"; });
  const PhiloxKey key = philox_key(context.seed, place.name);
  const auto places = std::make_shared<const std::vector<TokenPlace>>(context.places(x.size(0)));
  return dropout_rows(x, p, [=, first = word(place.first_feature), step = word(context.step)](int64_t r) {
    const auto& [sample, token] = (*places)[static_cast<size_t>(r)];
    return RowOfWords{key, first, word(token), word(sample), step};
  });
}

std::function<RowOfWords(int64_t r)> attention_words(const std::string& name, int64_t heads, const ScoresPlace& place,
                                                     const StepContext& context) {
  // A head is part of the stream's name: a counter has room for three coordinates and a step.
  std::vector<PhiloxKey> keys;
  for (int64_t h = 0; h < heads; ++h)
    keys.push_back(philox_key(context.seed, name + ".head" + std::to_string(place.first_head + h)));
  return [=, queries = place.queries.size(), step = word(context.step)](int64_t r) {
    return RowOfWords{keys[static_cast<size_t>(r / queries)], word(place.first_key),
                      word(place.queries.begin + r % queries), word(place.sample), step};
  };
}

DropoutSteps dropout_steps(double p) {
  const auto threshold = static_cast<uint16_t>(std::min(std::round(p * kSteps), kSteps - 1));
  return {threshold, 1.0 / (1.0 - threshold / kSteps)};
}

}  // namespace adjoin::nn
