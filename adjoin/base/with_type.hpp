#pragma once

#include "adjoin/base/element_type.hpp"
#include "adjoin/base/half.hpp"

namespace adjoin {

/// Calls work(T{}) with the C++ type T that corresponds to `type`.
template <class Work>
auto with_type(ElementType type, Work&& work) {
  switch (type) {
    case ElementType::boolean:
      return work(bool{});
    case ElementType::uint8:
      return work(uint8_t{});
    case ElementType::int32:
      return work(int32_t{});
    case ElementType::int64:
      return work(int64_t{});
    case ElementType::float16:
      return work(Float16{});
    case ElementType::bfloat16:
      return work(BFloat16{});
    case ElementType::float32:
      return work(float{});
    default:
      return work(double{});
  }
}

}  // namespace adjoin
