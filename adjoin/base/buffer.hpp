#pragma once

#include <cstdint>
#include <span>

#include "adjoin/base/element_type.hpp"
#include "adjoin/base/half.hpp"

namespace adjoin {

/// Where a buffer lies. Only the CPU for now; CUDA has its place in the contract.
struct Device {
  enum class Kind : uint8_t { cpu, cuda };
  Kind kind = Kind::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

namespace detail {
template <class T>
struct ElementTypeOf;
template <>
struct ElementTypeOf<bool> {
  static constexpr auto value = ElementType::boolean;
};
template <>
struct ElementTypeOf<uint8_t> {
  static constexpr auto value = ElementType::uint8;
};
template <>
struct ElementTypeOf<int32_t> {
  static constexpr auto value = ElementType::int32;
};
template <>
struct ElementTypeOf<int64_t> {
  static constexpr auto value = ElementType::int64;
};
template <>
struct ElementTypeOf<Float16> {
  static constexpr auto value = ElementType::float16;
};
template <>
struct ElementTypeOf<BFloat16> {
  static constexpr auto value = ElementType::bfloat16;
};
template <>
struct ElementTypeOf<float> {
  static constexpr auto value = ElementType::float32;
};
template <>
struct ElementTypeOf<double> {
  static constexpr auto value = ElementType::float64;
};
}  // namespace detail

/// The ElementType of a C++ type.
template <class T>
inline constexpr ElementType element_type_of = detail::ElementTypeOf<T>::value;

/// Contiguous elements that somebody else owns.
struct Buffer {
  void* data = nullptr;
  int64_t count = 0;
  ElementType type = ElementType::float32;
  Device device = {};

  int64_t bytes() const { return count * size_of(type); }
  /// Elements [begin, begin + n).
  Buffer slice(int64_t begin, int64_t n) const {
    return {static_cast<char*>(data) + begin * size_of(type), n, type, device};
  }
};

/// Contiguous elements that are only read.
struct ConstBuffer {
  const void* data = nullptr;
  int64_t count = 0;
  ElementType type = ElementType::float32;
  Device device = {};

  ConstBuffer() = default;
  ConstBuffer(const void* d, int64_t n, ElementType t, Device at = {}) : data(d), count(n), type(t), device(at) {}
  ConstBuffer(const Buffer& b) : data(b.data), count(b.count), type(b.type), device(b.device) {}  // NOLINT

  int64_t bytes() const { return count * size_of(type); }
  ConstBuffer slice(int64_t begin, int64_t n) const {
    return {static_cast<const char*>(data) + begin * size_of(type), n, type, device};
  }
};

/// Whose elements a buffer may lie over: a span, a std::vector, an array.
template <class Range>
concept Elements = requires(Range& elements) { std::span(elements); };

/// One number that a buffer may lie over.
template <class T>
concept Element = requires { detail::ElementTypeOf<T>::value; };

/// A Buffer over a span, a std::vector or an array of a known element type.
template <Elements Range>
Buffer buffer(Range& elements) {
  std::span view(elements);
  return {view.data(), static_cast<int64_t>(view.size()), element_type_of<typename decltype(view)::value_type>};
}

/// A Buffer over one number: `world.all_reduce(buffer(loss))`.
template <Element T>
Buffer buffer(T& element) {
  return {&element, 1, element_type_of<T>};
}

/// The same for elements that are only read.
template <Elements Range>
ConstBuffer const_buffer(const Range& elements) {
  std::span view(elements);
  return {view.data(), static_cast<int64_t>(view.size()), element_type_of<typename decltype(view)::value_type>};
}
template <Element T>
ConstBuffer const_buffer(const T& element) {
  return {&element, 1, element_type_of<T>};
}

}  // namespace adjoin
