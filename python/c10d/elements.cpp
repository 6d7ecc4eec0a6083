#include "python/c10d/elements.hpp"

#include <ATen/ATen.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <limits>
#include <string>

#include "adjoin/base/shared_memory.hpp"

namespace adjoin::c10d_backend {

namespace {

using at::ScalarType;

constexpr int8_t kSign = std::numeric_limits<int8_t>::min();

/// "int16", which lives as long as the process.
std::string_view name_of(ScalarType type) {
  static const auto& names = *[] {
    auto* all = new std::array<std::string, static_cast<size_t>(ScalarType::NumOptions)>;
    for (size_t i = 0; i < all->size(); ++i)
      if (static_cast<ScalarType>(i) != ScalarType::Undefined)
        (*all)[i] = c10::getDtypeNames(static_cast<ScalarType>(i)).first;
    return all;
  }();
  return names[static_cast<size_t>(type)];
}

}  // namespace

Unit unit_of(ScalarType type) {
  switch (type) {
    case at::kBool:
      return {ElementType::boolean};
    case at::kByte:
      return {ElementType::uint8};
    case at::kInt:
      return {ElementType::int32};
    case at::kLong:
      return {ElementType::int64};
    case at::kHalf:
      return {ElementType::float16};
    case at::kBFloat16:
      return {ElementType::bfloat16};
    case at::kFloat:
      return {ElementType::float32};
    case at::kDouble:
      return {ElementType::float64};
    case at::kComplexFloat:
      return {ElementType::float32, 2, name_of(type)};
    case at::kComplexDouble:
      return {ElementType::float64, 2, name_of(type)};
    default:
      return {ElementType::uint8, static_cast<int64_t>(c10::elementSize(type)), name_of(type)};
  }
}

Buffer buffer_of(const at::Tensor& contiguous) {
  const Unit unit = unit_of(contiguous.scalar_type());
  const int64_t count = contiguous.numel() * unit.per_element;
  return {count > 0 ? contiguous.data_ptr() : nullptr, count, unit.type};
}

void share(const at::Tensor& tensor) {
  SharedMemory* const memory = SharedMemory::current();
  if (!memory || !tensor.has_storage() || memory->reaches(tensor.const_data_ptr())) return;
  const size_t bytes = tensor.storage().nbytes();
  if (tensor.nbytes() == bytes && tensor.storage_offset() == 0) memory->share(tensor.const_data_ptr(), bytes);
}

bool flips_sign(const c10d::ReduceOp& op, ScalarType type) {
  return type == at::kChar && (op.op_ == c10d::ReduceOp::MIN || op.op_ == c10d::ReduceOp::MAX);
}

Reduction reduction_of(const c10d::ReduceOp& op, ScalarType type) {
  static constexpr std::array kNames{"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};
  static constexpr std::array kReductions{Reduction::sum, Reduction::average, Reduction::product, Reduction::min,
                                          Reduction::max, Reduction::bit_and, Reduction::bit_or,  Reduction::bit_xor};
  const size_t number = op.op_;
  TORCH_CHECK_VALUE(number < kReductions.size(), "adjoin: ReduceOp.", number < kNames.size() ? kNames[number] : "?",
                    " is not supported");
  const Reduction reduction = kReductions[number];
  const bool is_complex = c10::isComplexType(type);
  const Unit unit = unit_of(type);
  const bool has_sums = unit.moved_type.empty() || is_complex || type == at::kChar;
  const bool is_there = has_sums && is_defined(reduction, unit.type) &&
                        (!is_complex || reduction == Reduction::sum || reduction == Reduction::average);
  TORCH_CHECK_VALUE(is_there && type != at::kComplexHalf, "adjoin: Cannot use ReduceOp.", kNames[number], " with ",
                    name_of(type));
  return reduction;
}

Operand Operand::in(const at::Tensor& given, bool flips) {
  return {given, flips ? given.bitwise_xor(kSign).contiguous() : given.contiguous(), flips};
}

Operand Operand::out(const at::Tensor& given, bool flips) {
  const bool is_usable = given.is_contiguous() && !flips;
  return {given, is_usable ? given : at::empty(given.sizes(), given.options()), flips};
}

void Operand::give_back() const {
  if (!given_.is_same(flat_)) given_.copy_(flips_ ? flat_.bitwise_xor(kSign) : flat_);
}

}  // namespace adjoin::c10d_backend
