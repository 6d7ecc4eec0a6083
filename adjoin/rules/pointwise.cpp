#include <ATen/ExpandUtils.h>

#include <algorithm>

#include "adjoin/rules/operation.hpp"

namespace adjoin::rules {
namespace {

/// Operations for which f(a + b) = f(a) + f(b) in all tensors together.
bool is_sum(std::string_view name) {
  static const std::set<std::string_view> kSums{
      "aten::add",   "aten::add_",  "aten::sub",        "aten::sub_",     "aten::rsub",           "aten::neg",
      "aten::neg_",  "aten::clone", "aten::contiguous", "aten::detach",   "aten::detach_",        "aten::alias",
      "aten::copy_", "aten::to",    "aten::_to_copy",   "aten::positive", "aten::lift_fresh_copy"};
  return kSums.contains(name);
}
/// Operations that are linear where only their first argument is a tensor.
bool is_multiple(const c10::FunctionSchema& schema) {
  static const std::set<std::string_view> kMultiples{"aten::mul", "aten::mul_", "aten::div", "aten::div_"};
  return kMultiples.contains(schema.name()) && !schema.overload_name().ends_with("_mode");  // which rounds
}
/// Whether an operation casts to numbers that round or overflow: then the sum of casts is not the cast of the sum.
bool rounds(const Operation& operation) {
  for (size_t i = 0; i < operation.arguments.size(); ++i) {
    const c10::IValue& value = operation.arguments[i];
    if (operation.handle.schema().arguments()[i].name() == "dtype" && value.isInt() &&
        !at::isFloatingType(value.toScalarType()) && !at::isComplexType(value.toScalarType()))
      return true;
  }
  const std::string& name = operation.name();
  return name == "aten::copy_" && !operation.arguments[0].toTensor().is_floating_point() &&
         !operation.arguments[0].toTensor().is_complex();
}

}  // namespace

std::vector<Way> pointwise(const Operation& operation) {
  std::vector<int64_t> shape = operation.operands[0].layout.shape();
  for (const Operand& operand : operation.operands)
    if (!operation.is_in_place) shape = at::infer_size(shape, operand.layout.shape());
  const std::vector<int> result = numbered(static_cast<int64_t>(shape.size()));
  Labels labels{.operands = {}, .results = {result}};
  bool has_numbers = false;  // which would be added to each summand
  for (size_t i = 0; i < operation.arguments.size(); ++i) {
    const auto& type = operation.handle.schema().arguments()[i].type();
    const bool is_number = type->kind() == c10::TypeKind::NumberType || operation.arguments[i].isTensor();
    has_numbers = has_numbers || (i < 2 && is_number && operation.operand(i) == nullptr);
  }
  for (size_t i = 0; i < operation.operands.size(); ++i) {
    if (operation.operands[i].layout.dims() > static_cast<int64_t>(shape.size())) return {};
    labels.operands.push_back(broadcast_labels(operation.operands[i].layout.shape(), shape, result));
    if (is_sum(operation.name())) labels.summands.insert(i);
  }
  labels.is_linear = is_sum(operation.name()) && !has_numbers && !rounds(operation);
  if (is_multiple(operation.handle.schema()) && operation.operand(0) != nullptr) labels.linear_in = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    const bool exists = std::ranges::any_of(labels.operands, [&](const std::vector<int>& operand) {
      return std::ranges::find(operand, static_cast<int>(dim)) != operand.end();
    });
    if (!exists) labels.sizes[static_cast<int>(dim)] = shape[dim];
  }
  return labelled(labels, operation);
}

}  // namespace adjoin::rules
