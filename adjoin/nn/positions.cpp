#include "adjoin/nn/positions.hpp"

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numbers>
#include <string>
#include <type_traits>
#include <vector>

#include "adjoin/base/text.hpp"
#include "adjoin/movement/linear_map.hpp"
#include "adjoin/movement/on_threads.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin::nn {
namespace {

/// For each row and pair, the numbers by which a pair is multiplied to turn it by its angle. Shape: [rows, size / 2]
struct Turns {
  at::Tensor cosine, sine;
};

/// The same by LibTorch's operations, on a device.
at::Tensor turned_by_operations(const at::Tensor& x, const Turns& turns, int sign) {
  const std::vector<at::Tensor> pairs = x.to(turns.cosine.scalar_type()).chunk(2, 2);
  const at::Tensor cosine = turns.cosine.unsqueeze(1), sine = turns.sine.unsqueeze(1) * sign;
  return at::cat({pairs[0] * cosine - pairs[1] * sine, pairs[0] * sine + pairs[1] * cosine}, 2).to(x.scalar_type());
}

/// x with its pairs turned (turned back if `sign` is -1), computed in the type of the turns.
at::Tensor turned(const at::Tensor& x, const Turns& turns, int sign) {
  const at::Tensor given = plain("rotary", x), in = given.stride(2) == 1 ? given : given.contiguous();
  if (!in.is_cpu()) return turned_by_operations(in, turns, sign);
  at::Tensor out = at::empty(in.sizes(), in.options().requires_grad(false));
  const int64_t heads = in.size(1), half = in.size(2) / 2;
  const int64_t rows_at_once = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, 2 * heads * half));
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, in.scalar_type(), "rotary", [&] {
    using Turn = std::conditional_t<std::is_same_v<scalar_t, double>, double, float>;
    const auto* from = in.const_data_ptr<scalar_t>();
    auto* to = out.mutable_data_ptr<scalar_t>();
    const auto *cosines = turns.cosine.const_data_ptr<Turn>(), *sines = turns.sine.const_data_ptr<Turn>();
    on_threads(in.size(0), rows_at_once, [&](Range part) {
      for (int64_t row = part.begin; row < part.end; ++row)
        for (int64_t head = 0; head < heads; ++head) {
          const scalar_t* a = from + row * in.stride(0) + head * in.stride(1);
          scalar_t* y = to + (row * heads + head) * 2 * half;
          const Turn *cosine = cosines + row * half, *sine = sines + row * half;
          for (int64_t i = 0; i < half; ++i) {
            const auto first = static_cast<Turn>(a[i]), second = static_cast<Turn>(a[half + i]), s = sign * sine[i];
            y[i] = static_cast<scalar_t>(first * cosine[i] - second * s);
            y[half + i] = static_cast<scalar_t>(first * s + second * cosine[i]);
          }
        }
    });
  });
  return out;
}

/// For x on its device; the type is x's, or float for 16-bit types.
Turns turns_of(const at::Tensor& tokens, int64_t half, const RotaryOptions& options, const at::TensorOptions& type) {
  const at::Tensor angle = tokens.cpu().to(at::kDouble).unsqueeze(1) * rotary_speeds(options, half);
  return {angle.cos().to(type), angle.sin().to(type)};
}

std::string described(const RotaryOptions& options) {
  std::string text = "scaling " + std::to_string(static_cast<int>(options.scaling));
  for (const double number : {options.base, options.factor, options.low_turns, options.high_turns,
                              static_cast<double>(options.trained_tokens)})
    text += ' ' + shortest_text(number);
  return text;
}

at::TensorOptions type_of_turns(const at::Tensor& x) {
  return at::device(x.device()).dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

at::Tensor rotary(const at::Tensor& x, const Turns& turns) {
  return apply({.forward = [turns](const at::Tensor& t) { return turned(t, turns, 1); },
                .adjoint = [turns](const at::Tensor& t) { return turned(t, turns, -1); }},
               x);
}

}  // namespace

at::Tensor token_numbers(const LocalTokenRows& rows, int64_t count) {
  std::vector<int64_t> tokens;
  for (const TokenPlace& place : *rows.places(count)) tokens.push_back(place.token);
  return at::tensor(tokens, at::kLong);
}

at::Tensor rotary_speeds(const RotaryOptions& options, int64_t pairs) {
  using Scaling = RotaryOptions::Scaling;
  const at::Tensor speed = at::pow(options.base, at::arange(pairs, at::kDouble) / static_cast<double>(-pairs));
  if (options.scaling == Scaling::none) return speed;
  const at::Tensor slow = speed / options.factor;
  if (options.scaling == Scaling::linear) return slow;
  const at::Tensor turns = speed * (static_cast<double>(options.trained_tokens) / (2 * std::numbers::pi));
  const at::Tensor kept = ((turns - options.low_turns) / (options.high_turns - options.low_turns)).clamp(0, 1);
  return slow + kept * (speed - slow);
}

at::Tensor rotary(const at::Tensor& x, const at::Tensor& tokens, const RotaryOptions& options) {
  return rotary(x, turns_of(tokens, x.size(2) / 2, options, type_of_turns(x)));
}

at::Tensor rotary(const at::Tensor& x, const LocalTokenRows& rows, const RotaryOptions& options) {
  const int64_t half = x.size(2) / 2;
  const at::TensorOptions type = type_of_turns(x);
  const std::string key = "angles of worker " + std::to_string(rows.index()) + ", " + described(options) + ", " +
                          std::to_string(half) + " pairs of " + c10::toString(c10::typeMetaToScalarType(type.dtype())) +
                          " on " + x.device().str();
  return rotary(x, rows.all().once(key, [&] { return turns_of(token_numbers(rows, x.size(0)), half, options, type); }));
}

}  // namespace adjoin::nn
