#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "adjoin/base/element_type.hpp"
#include "adjoin/base/half.hpp"

namespace adjoin {

/// Where the memory of a buffer is. Only the operations of a device touch its memory: what the CPU needs of it is copied
/// (device_runtime.hpp).
struct Device {
  enum class Kind : uint8_t { cpu, cuda, private_use };
  Kind kind = Kind::cpu;
  int8_t index = 0;
  bool operator==(const Device&) const = default;
};

namespace detail {
/// The index of T in Types; the number of Types where T is none of them.
template <class T, class... Types>
constexpr int place_among() {
  int place = 0;
  static_cast<void>(((std::is_same_v<T, Types> || (++place, false)) || ...));
  return place;
}
/// The index of T in the order of ElementType.
template <class T>
constexpr int kElementPlace = place_among<T, bool, uint8_t, int32_t, int64_t, Float16, BFloat16, float, double>();
}  // namespace detail

/// A C++ type that a buffer can hold elements of.
template <class T>
concept Element = detail::kElementPlace<T> < kElementTypes;

/// The ElementType of a C++ type.
template <Element T>
inline constexpr auto element_type_of = static_cast<ElementType>(detail::kElementPlace<T>);

/// Contiguous elements that are owned elsewhere.
struct Buffer {
  void* data = nullptr;
  int64_t count = 0;
  ElementType type = ElementType::float32;
  Device device = {};

  int64_t bytes() const { return count * size_of(type); }
  /// Whether it has elements, and they are on a device.
  bool is_on_device() const { return count > 0 && device.kind != Device::Kind::cpu; }
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
  bool is_on_device() const { return count > 0 && device.kind != Device::Kind::cpu; }
  ConstBuffer slice(int64_t begin, int64_t n) const {
    return {static_cast<const char*>(data) + begin * size_of(type), n, type, device};
  }
};

/// A container that a buffer can refer to: a span, a std::vector, an array.
template <class Range>
concept Elements = requires(Range& elements) { std::span(elements); };

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
