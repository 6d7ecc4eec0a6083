#include "adjoin/nn/dropout.hpp"

#include <ATen/Dispatch.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/philox.hpp"
#include "adjoin/movement/forward_mode.hpp"
#include "adjoin/movement/linear_map.hpp"
#include "adjoin/movement/on_threads.hpp"
#include "adjoin/movement/saved_value.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "adjoin/nn/device_mask.hpp"
#include "adjoin/nn/dropped_elements.hpp"

namespace adjoin::nn {
namespace {

constexpr double kSteps = 65536;  // steps of a probability: masks are drawn from 16-bit words

void check_probability(double p) {
  require(p >= 0 && p < 1, [&] { return "dropout: expected a probability in [0, 1), got " + std::to_string(p); });
}

uint32_t word(int64_t coordinate) {
  return static_cast<uint32_t>(coordinate);
}

using MaskRows = std::function<MaskRow(int64_t)>;

template <class Out, class In>
void drop_rows(const at::Tensor& in, const at::Tensor& base, const at::Tensor& out, double p, const MaskRows& words) {
  const int64_t columns = in.size(-1), rows = in.numel() / columns;
  const DropoutSteps steps = dropout_steps(p);
  const InstructionSet set = best_instruction_set();
  const auto* from = in.const_data_ptr<In>();
  const auto* onto = base.defined() ? base.const_data_ptr<Out>() : nullptr;
  auto* to = out.mutable_data_ptr<Out>();
  on_threads(rows, std::max<int64_t>(1, 16384 / columns), [&](Range part) {
    std::vector<uint16_t> random(static_cast<size_t>(columns));
    for (int64_t r = part.begin; r < part.end; ++r) {
      const MaskRow w = words(r);
      philox_row(random, w.key, w.first_column, w.row, w.plane, w.volume);
      drop_elements(set, {columns, random.data(), steps.threshold, steps.factor}, from + r * columns,
                    onto ? onto + r * columns : nullptr, to + r * columns);
    }
  });
}

/// The same on a device, rounded once too.
at::Tensor masked_on_device(const at::Tensor& in, double p, const MaskRows& words, at::ScalarType type,
                            const at::Tensor& base) {
  const DropoutSteps steps = dropout_steps(p);
  const int64_t columns = in.size(-1), rows = in.numel() / columns;
  const at::ScalarType precise = in.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor kept = device_mask(in.device(), rows, columns, steps.threshold, words).view(in.sizes());
  const at::Tensor out = in.to(precise).mul(steps.factor).masked_fill_(kept.logical_not(), 0);
  return (base.defined() ? base + out : out).to(type);
}

/// base + masked x, or masked x without a base. `words(r)` draws the mask of row r, along the last dim. The result has type
/// `type`; x has the same type, or one of the two is float.
at::Tensor masked(const at::Tensor& x, double p, const MaskRows& words, at::ScalarType type,
                  const at::Tensor& base = {}) {
  const at::Tensor in = plain("dropout", x).contiguous();
  const at::Tensor onto = base.defined() ? plain("dropout", base).contiguous() : base;
  at::Tensor out = at::empty(in.sizes(), in.options().dtype(type));
  if (in.numel() == 0) return out;
  if (!in.is_cpu()) return masked_on_device(in, p, words, type, onto);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, in.scalar_type(), "dropout", [&] {
    if (type == in.scalar_type())
      drop_rows<scalar_t, scalar_t>(in, onto, out, p, words);
    else if constexpr (std::is_same_v<scalar_t, float>)
      type == at::kHalf ? drop_rows<c10::Half, float>(in, onto, out, p, words)
                        : drop_rows<c10::BFloat16, float>(in, onto, out, p, words);
    else if constexpr (!std::is_same_v<scalar_t, double>)
      drop_rows<float, scalar_t>(in, onto, out, p, words);
  });
  return out;
}

/// `masked` as a linear map from one type into another.
LinearMap masking(double p, const MaskRows& words, at::ScalarType from, at::ScalarType to) {
  return {.forward = [=](const at::Tensor& t) { return masked(t, p, words, to); },
          .adjoint = [=](const at::Tensor& t) { return masked(t, p, words, from); }};
}

struct Mask {
  double p;
  MaskRows words;
};

/// base + dropout(x), where x has the base's type, or a 16-bit type with a float base.
struct AddDropped : torch::autograd::Function<AddDropped> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& base, const at::Tensor& x,
                            const Mask& mask) {
    ctx->saved_data["mask"] = saved_value(mask);
    ctx->saved_data["type"] = x.scalar_type();
    return masked(x, mask.p, mask.words, base.scalar_type(), base);
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* ctx,
                                               torch::autograd::tensor_list gradients) {
    const auto& [p, words] = value_of<Mask>(ctx->saved_data["mask"]);
    const at::Tensor& g = gradients[0];
    return {g, adjoin::apply(masking(p, words, g.scalar_type(), ctx->saved_data["type"].toScalarType()), g),
            at::Tensor()};
  }
};

/// The words of each row of a tensor that a DropoutPlace describes.
MaskRows words_of_rows(const at::Tensor& x, const DropoutPlace& place, const ForwardPass& pass) {
  require(x.dim() == 2, [&] { return "dropout: expected [rows, features], got " + std::to_string(x.dim()) + " dims"; });
  return [places = pass.rows.places(x.size(0)), step = pass.step, key = philox_key(pass.step.seed, place.name),
          first = word(place.first_feature)](int64_t r) {
    const auto& [sample, token] = (*places)[static_cast<size_t>(r)];
    return MaskRow{key, first, word(token), word(step.first_sample + sample), word(step.number)};
  };
}

}  // namespace

at::Tensor dropout_rows(const at::Tensor& x, double p, std::function<MaskRow(int64_t)> words) {
  check_probability(p);
  return adjoin::apply(masking(p, words, x.scalar_type(), x.scalar_type()), x);
}

at::Tensor dropout(const at::Tensor& x, double p, const DropoutPlace& place, const ForwardPass& pass) {
  check_probability(p);
  if (!pass.step.training || p == 0) return x;
  return dropout_rows(x, p, words_of_rows(x, place, pass));
}

at::Tensor add_dropped(const at::Tensor& base, const at::Tensor& x, double p, const DropoutPlace& place,
                       const ForwardPass& pass) {
  check_probability(p);
  if (!pass.step.training || p == 0) return base + x;
  require(base.sizes() == x.sizes(), "add_dropped: expected two tensors of one shape");
  const bool fits = base.scalar_type() == x.scalar_type() ||
                    (base.scalar_type() == at::kFloat && c10::elementSize(x.scalar_type()) == 2);
  for (const at::Tensor* t : {&base, &x}) refuse_tangent("add_dropped", *t);
  return AddDropped::apply(base, fits ? x : x.to(base.scalar_type()), Mask{p, words_of_rows(x, place, pass)});
}

std::function<MaskRow(int64_t r)> attention_words(const std::string& name, int64_t heads, const ScoresPlace& place,
                                                  const Step& step) {
  // The head is in the stream's name, as a counter has room for three coordinates and a step only.
  std::vector<PhiloxKey> keys;
  for (int64_t h = 0; h < heads; ++h)
    keys.push_back(philox_key(step.seed, name + ".head" + std::to_string(place.first_head + h)));
  return [=, queries = place.queries.size(), number = word(step.number)](int64_t r) {
    return MaskRow{keys[static_cast<size_t>(r / queries)], word(place.first_key),
                   word(place.queries.begin + r % queries), word(place.sample), number};
  };
}

DropoutSteps dropout_steps(double p) {
  const auto threshold = static_cast<uint16_t>(std::min(std::round(p * kSteps), kSteps - 1));
  return {threshold, 1.0 / (1.0 - threshold / kSteps)};
}

}  // namespace adjoin::nn
