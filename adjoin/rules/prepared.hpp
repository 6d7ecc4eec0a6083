#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <c10/util/SmallVector.h>

#include <bit>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "adjoin/movement/global_tensor.hpp"
#include "adjoin/rules/operation.hpp"

namespace adjoin::rules {

/// What distinguishes one call of an operator from another for its rule. Numbers that users pass as such (at::Scalar) do not.
class Key {
 public:
  explicit Key(const c10::FunctionSchema& schema) { add(&schema); }
  void add(const void* pointer) { add(reinterpret_cast<uint64_t>(pointer)); }
  void add(uint64_t word) {
    words_.push_back(word);
    hash_ = (hash_ ^ word) * 0x9E3779B97F4A7C15;
    hash_ ^= hash_ >> 29;
  }
  void add(const at::Tensor& tensor) {
    const auto type = tensor.defined() ? static_cast<uint64_t>(tensor.scalar_type()) << 56 : 0;
    if (is_global(tensor)) return add(reinterpret_cast<uint64_t>(piece_of(tensor).layout.id()) ^ type);
    add(type ^ (uint64_t{2} +
                (tensor.defined() ? 2 * static_cast<uint64_t>(tensor.dim()) + tensor.requires_grad() : ~uint64_t{0})));
    if (tensor.defined())
      for (const int64_t size : tensor.sizes()) add(static_cast<uint64_t>(size));
  }
  void add(const c10::IValue& value) {
    if (value.isTensor()) return add(value.toTensor());
    if (value.isInt()) return add(static_cast<uint64_t>(value.toInt()));
    if (value.isBool()) return add(static_cast<uint64_t>(value.toBool()));
    if (value.isDouble()) return add(std::bit_cast<uint64_t>(value.toDouble()));
    if (value.isString()) return add(std::hash<std::string_view>()(value.toStringView()));
    if (value.isList()) {
      add(value.toListRef().size());
      for (const c10::IValue& item : value.toListRef()) add(item);
      return;
    }
    constexpr uint64_t kNone = 0xA0761D6478BD642F;  // no number that an argument has
    add(value.isNone() ? kNone : 0);
  }
  bool operator==(const Key& other) const { return hash_ == other.hash_ && words_ == other.words_; }
  struct Hash {
    size_t operator()(const Key& key) const { return key.hash_; }
  };

 private:
  c10::SmallVector<uint64_t, 24> words_;
  uint64_t hash_ = 0;
};

/// The way of one call, prepared.
struct Prepared {
  std::vector<Layout> operands;              // whose ids are in the key, kept so that no other layout gets them
  std::optional<Way> way;                    // none: the operands are gathered
  std::vector<std::vector<int64_t>> shapes;  // of what this worker makes
  bool links = false;                        // some worker reads or makes nothing
  bool copies = false;                       // a view to LibTorch whose operand moves, so that it is a copy
};

using Cache = std::unordered_map<Key, Prepared, Key::Hash>;

/// What is kept of earlier calls.
inline Cache& cache_of(GlobalGrid& home) {
  constexpr size_t kKept = 8192;
  if (!home.prepared.has_value()) home.prepared = std::make_shared<Cache>();
  Cache& cache = *std::any_cast<std::shared_ptr<Cache>&>(home.prepared);
  if (cache.size() == kKept) cache.clear();
  return cache;
}

}  // namespace adjoin::rules
