#pragma once

#include <ATen/core/ivalue.h>

#include <utility>

namespace adjoin {

template <class Value>
struct SavedValue : torch::CustomClassHolder {
  explicit SavedValue(Value v) : value(std::move(v)) {}
  Value value;
};

/// A value that is not a tensor, for an autograd function to save: `ctx->saved_data["map"] = saved_value(map)`.
template <class Value>
c10::IValue saved_value(Value value) {
  return c10::IValue::make_capsule(c10::make_intrusive<SavedValue<Value>>(std::move(value)));
}

/// The value in backward, `value_of<LinearMap>(ctx->saved_data["map"])`, which lives as long as the saved data.
template <class Value>
const Value& value_of(const c10::IValue& saved) {
  return static_cast<const SavedValue<Value>&>(*saved.toCapsule()).value;
}

}  // namespace adjoin
