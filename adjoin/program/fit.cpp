#include "adjoin/program/fit.hpp"

#include <ATen/ops/scalar_tensor.h>

#include "adjoin/base/error.hpp"

namespace adjoin::program {
namespace {

using c10::TypeKind;

/// The type without "or none".
const c10::Type& certain(const c10::Type& type) {
  return type.kind() == TypeKind::OptionalType ? *type.castRaw<c10::OptionalType>()->getElementType() : type;
}

template <class Number>
c10::IValue repeated(Number number, int32_t times) {
  return c10::List<Number>(std::vector<Number>(static_cast<size_t>(times), number));
}

void fit_list(const c10::TypePtr& element, int32_t length, c10::IValue& constant) {
  if (constant.isList() && constant.toListRef().empty()) constant = c10::impl::GenericList(element);
  if (constant.isInt()) constant = repeated(constant.toInt(), length);
  if (constant.isDouble()) constant = repeated(constant.toDouble(), length);
  if (constant.isIntList() && element->kind() == TypeKind::FloatType) {
    c10::List<double> numbers;
    for (const int64_t number : constant.toIntVector()) numbers.push_back(static_cast<double>(number));
    constant = numbers;
  }
}

bool is_fit(const c10::Type& type, const Argument& argument) {
  using Kind = Argument::Kind;
  const bool is_list = type.kind() == TypeKind::ListType;
  const TypeKind element = is_list ? type.castRaw<c10::ListType>()->getElementType()->kind() : TypeKind::AnyType;
  switch (argument.kind) {
    case Kind::device:
      return type.kind() == TypeKind::DeviceObjType;
    case Kind::tensors:
    case Kind::optional_tensors:
      return element == TypeKind::OptionalType || (element == TypeKind::TensorType && argument.kind == Kind::tensors);
    case Kind::integers:
      return element == TypeKind::IntType;
    case Kind::value:
      return !is_list && type.kind() != TypeKind::StringType && type.kind() != TypeKind::DeviceObjType;
    default:
      return argument.constant.type()->isSubtypeOf(type);
  }
}

}  // namespace

at::Tensor as_tensor(const c10::IValue& number) {
  const auto type = number.isInt() ? at::kLong : number.isBool() ? at::kBool : at::kDouble;
  return at::scalar_tensor(number.toScalar(), type);
}

at::Tensor number_as_tensor(const c10::IValue& number) {
  at::Tensor tensor = as_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

void fit(const c10::Argument& wanted, Argument& argument) {
  const c10::Type& type = certain(*wanted.type());
  argument.is_tensor = type.kind() == TypeKind::TensorType;
  c10::IValue& constant = argument.constant;
  if (argument.kind == Argument::Kind::constant) {
    if (constant.isNone() && wanted.type()->kind() == TypeKind::OptionalType) return;
    if (argument.is_tensor && constant.isScalar()) constant = number_as_tensor(constant);
    if (type.kind() == TypeKind::FloatType && constant.isInt()) constant = static_cast<double>(constant.toInt());
    if (type.kind() == TypeKind::ListType)
      fit_list(type.castRaw<c10::ListType>()->getElementType(), wanted.N().value_or(1), constant);
  }
  require(is_fit(type, argument), [&] { return "the argument " + wanted.name() + " is no " + type.str(); });
}

}  // namespace adjoin::program
