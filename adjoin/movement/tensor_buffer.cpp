#include "adjoin/movement/tensor_buffer.hpp"

#include <array>
#include <string>
#include <utility>

#include "adjoin/base/error.hpp"

namespace adjoin {
namespace {

constexpr std::array<std::pair<at::ScalarType, ElementType>, kElementTypes> kTypes = {{
    {at::kBool, ElementType::boolean},
    {at::kByte, ElementType::uint8},
    {at::kInt, ElementType::int32},
    {at::kLong, ElementType::int64},
    {at::kHalf, ElementType::float16},
    {at::kBFloat16, ElementType::bfloat16},
    {at::kFloat, ElementType::float32},
    {at::kDouble, ElementType::float64},
}};

}  // namespace

ElementType element_type(at::ScalarType type) {
  for (const auto& [scalar, element] : kTypes)
    if (scalar == type) return element;
  throw InvalidArgument(std::string("communication: tensors of type ") + c10::toString(type) + " cannot be moved");
}

at::ScalarType scalar_type(ElementType type) {
  for (const auto& [scalar, element] : kTypes)
    if (element == type) return scalar;
  throw InternalError("scalar_type: unknown element type");
}

Buffer buffer(const at::Tensor& tensor) {
  require(tensor.is_contiguous() && !tensor.is_neg(), "communication: expected a contiguous tensor");
  require(tensor.is_cpu(), [&] { return "communication: expected a CPU tensor, got " + tensor.device().str(); });
  return {tensor.data_ptr(), tensor.numel(), element_type(tensor.scalar_type())};
}

}  // namespace adjoin
