#include "adjoin/rules/operation.hpp"

#include <unordered_map>

#include "adjoin/base/error.hpp"

namespace adjoin::rules {

const Known* known_rule(const c10::OperatorHandle& handle) {
  static const auto all = [] {
    std::unordered_map<c10::OperatorHandle, Known> rules;
    for (const Table& table :
         {product_rules(), view_rules(), part_rules(), reduction_rules(), row_rules(), layer_rules(), norm_rules(),
          random_rules(), recurrent_rules(), window_rules(), fourier_rules()})
      for (const Named& named : table)
        for (const std::string name : named.operators) {
          const size_t dot = name.find('.');
          const auto found = c10::Dispatcher::singleton().findSchema(
              {"aten::" + name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
          require(found.has_value(), [&] { return "rules: LibTorch has no operator aten::" + name; });
          rules.emplace(*found, Known{named.rule, named.is_product});
        }
    return rules;
  }();
  static const Known elementwise{pointwise};
  static const auto equal = c10::Dispatcher::singleton().findSchemaOrThrow("aten::equal", "");
  if (handle == equal) return nullptr;  // is tagged as pointwise, but its answer is one for all elements
  if (const auto found = all.find(handle); found != all.end()) return &found->second;
  const bool draws = handle.hasTag(at::Tag::nondeterministic_seeded);
  return handle.hasTag(at::Tag::pointwise) && !draws ? &elementwise : nullptr;
}

bool is_composite(const c10::OperatorHandle& handle) {
  return handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

void run_parts(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  handle.redispatchBoxed(below_intercepted(keys), stack);
}

std::optional<Way> least_way(const Operation& operation, Rule rule) {
  const auto writes_where_it_lies = [&](const Way& way) {
    return way.reads[0] == operation.operands[0].layout && way.makes[0] == way.reads[0];
  };
  std::optional<Way> best;
  double least = 0;
  for (Way& way : rule(operation)) {
    if (operation.is_in_place && !writes_where_it_lies(way)) continue;
    double cost = kComputed * way.work;
    for (size_t i = 0; i < operation.operands.size(); ++i)
      if (!operation.operands[i].is_constant) cost += GlobalMove::cost(operation.operands[i].layout, way.reads[i]);
    if (best && cost >= least) continue;
    best = std::move(way);
    least = cost;
  }
  return best;
}

const Operand* Operation::operand(size_t argument) const {
  for (const Operand& operand : operands)
    if (operand.argument == argument) return &operand;
  return nullptr;
}

const std::vector<int64_t>& Operation::shape(size_t argument) const {
  return operand(argument)->layout.shape();
}

std::vector<int64_t> Operation::integers(size_t argument) const {
  const c10::IValue& value = arguments[argument];
  if (value.isNone()) return {};
  if (value.isInt()) return {value.toInt()};
  std::vector<int64_t> numbers;
  for (const c10::IValue& item : value.toListRef()) numbers.push_back(item.toInt());
  return numbers;
}

int64_t Operation::dim(size_t argument, int64_t dims) const {
  const int64_t dim = integer(argument);
  return dim < 0 ? dim + dims : dim;
}

}  // namespace adjoin::rules
