#include "adjoin/movement/tensor_buffer.hpp"

#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DispatchKeySet.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/base/hash.hpp"

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

using c10::DispatchKey;

constexpr c10::DispatchKeySet kPending({DispatchKey::Negative, DispatchKey::Conjugate, DispatchKey::ZeroTensor});
/// Tensors of a function transform, which have another tensor behind them.
constexpr c10::DispatchKeySet kTransformed({DispatchKey::FuncTorchBatched, DispatchKey::FuncTorchGradWrapper,
                                            DispatchKey::Functionalize});

/// Whether it is dense, on the CPU or a device with memory; other layouts (sparse, nested, oneDNN's) and quantised tensors have other keys.
bool is_dense(const at::Tensor& x) {
  const c10::DispatchKeySet keys = x.key_set();
  const bool has_memory =
      keys.has(DispatchKey::CPU) || keys.has(DispatchKey::CUDA) || keys.has(DispatchKey::PrivateUse1);
  if (!has_memory || keys.has_any(kTransformed)) return false;
  // A subclass of Python's may have no memory.
  return !keys.has(DispatchKey::Python) || (x.has_storage() && (x.numel() == 0 || x.storage().data() != nullptr));
}
bool is_pending(const at::Tensor& x) {
  return is_dense(x) && x.key_set().has_any(kPending);
}
bool is_plain(const at::Tensor& x) {
  return is_dense(x) && !x.key_set().has_any(kPending);
}

std::string expected_dense(const char* who, const at::Tensor& x) {
  const auto got = [&]() -> std::string {
    if (!x.defined()) return "none";
    if (!x.is_cpu()) return "one on " + x.device().str();
    if (x.layout() != at::kStrided) return "one of the layout " + c10::str(x.layout());
    return x.is_quantized() ? "a quantised one" : x.is_nested() ? "a nested one" : "one without memory of its own";
  };
  return std::string(who) + ": expected a dense tensor on the CPU, got " + got();
}

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

void check_plain(const char* who, const at::Tensor& x) {
  if (is_plain(x)) return;
  require(x.defined() && is_pending(x), [&] { return expected_dense(who, x); });
  throw InvalidArgument(std::string(who) +
                        ": expected a tensor whose memory contains its elements, got a view that negates or conjugates "
                        "what it reads; resolve_neg() and resolve_conj() make a copy of it");
}

at::Tensor plain(const char* who, const at::Tensor& x) {
  if (is_plain(x)) return x;
  require(x.defined() && is_pending(x), [&] { return expected_dense(who, x); });
  return x._is_zerotensor() ? at::zeros(x.sizes(), x.options()) : x.resolve_neg().resolve_conj();
}

int64_t hash_of_bytes(const char* who, const at::Tensor& x) {
  const at::Tensor whole = plain(who, x.detach()).cpu().contiguous();
  const auto* bytes = static_cast<const char*>(whole.const_data_ptr());
  std::vector<uint64_t> rest((whole.nbytes() % sizeof(uint64_t) != 0) ? 1 : 0);
  const size_t words = whole.nbytes() / sizeof(uint64_t);
  if (!rest.empty()) std::memcpy(rest.data(), bytes + words * sizeof(uint64_t), whole.nbytes() % sizeof(uint64_t));
  const auto seed = hash_of(std::span<const uint64_t>(rest));
  return static_cast<int64_t>(hash_of(std::span(reinterpret_cast<const uint64_t*>(bytes), words), seed));
}

Device buffer_device(const at::Tensor& x) {
  if (x.is_cpu()) return {};
  require(x.is_cuda() || x.is_privateuseone(),
          [&] { return "communication: tensors on " + x.device().str() + " cannot be moved"; });
  return {x.is_cuda() ? Device::Kind::cuda : Device::Kind::private_use, std::max<int8_t>(0, x.device().index())};
}

Buffer buffer(const at::Tensor& tensor) {
  check_plain("communication", tensor);
  require(tensor.is_contiguous(), "communication: expected a contiguous tensor");
  return {tensor.data_ptr(), tensor.numel(), element_type(tensor.scalar_type()), buffer_device(tensor)};
}

Buffer buffer_of_reals(const at::Tensor& tensor) {
  check_plain("communication", tensor);
  return buffer(tensor.is_complex() ? at::view_as_real(tensor) : tensor);
}

}  // namespace adjoin
