#include "adjoin/base/reduction.hpp"

#include <cstring>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/base/reduction_loops.hpp"
#include "adjoin/base/with_type.hpp"

namespace adjoin {

namespace {

bool is_float(ElementType type) {
  return type >= ElementType::float16;
}

/// For floats, the sum of an average divided by `ranks`; for integers, what a logical reduction makes of a single
/// rank's element.
template <class T>
T finished(T x, int64_t ranks) {
  if constexpr (std::is_integral_v<T>)
    return x != 0;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(to_float(x) / static_cast<float>(ranks));
  else if constexpr (std::is_same_v<T, Float16>)
    return to_float16(to_float(x) / static_cast<float>(ranks));
  else
    return x / static_cast<T>(ranks);
}

}  // namespace

std::string_view name(Reduction reduction) {
  constexpr std::string_view names[kReductions] = {"sum",         "product",    "min",        "max",
                                                   "average",     "bit_and",    "bit_or",     "bit_xor",
                                                   "logical_and", "logical_or", "logical_xor"};
  return names[static_cast<int>(reduction)];
}

bool is_defined(Reduction reduction, ElementType type) {
  if (reduction == Reduction::average) return is_float(type);
  return reduction < Reduction::average || !is_float(type);
}

void reduce_all_into(Buffer out, std::span<const void* const> inputs, Reduction reduction) {
  reduce_all_into(std::span(&out.data, 1), out.type, out.count, inputs, reduction);
}

void reduce_all_into(std::span<void* const> outs, ElementType type, int64_t count, std::span<const void* const> inputs,
                     Reduction reduction) {
  if (!is_defined(reduction, type))
    throw InvalidArgument("there is no " + std::string(name(reduction)) + " of " + std::string(name(type)));
  if (count == 0) return;
  if (inputs.size() > 1) return reduce_with(best_instruction_set(), {type, reduction, outs, inputs, count});
  for (void* out : outs) {
    const Buffer result{out, count, type};
    std::memmove(out, inputs[0], static_cast<size_t>(result.bytes()));
    finish_reduction(result, reduction, 1);
  }
}

void reduce_into(Buffer into, ConstBuffer from, Reduction reduction) {
  const void* inputs[] = {into.data, from.data};
  reduce_all_into(into, inputs, reduction);
}

Reduction pairwise_of(Reduction reduction) {
  return reduction == Reduction::average ? Reduction::sum : reduction;
}

void finish_reduction(Buffer result, Reduction reduction, int64_t ranks) {
  if (reduction == Reduction::average ? ranks == 1 : !is_logical(reduction) || ranks > 1) return;
  with_type(result.type, [=](auto zero) {
    auto* elements = static_cast<decltype(zero)*>(result.data);
    for (int64_t i = 0, n = result.count; i < n; ++i) elements[i] = finished(elements[i], ranks);
  });
}

}  // namespace adjoin
