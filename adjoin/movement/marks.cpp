#include "adjoin/movement/marks.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/ScopeExit.h>
#include <torch/library.h>

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"

namespace adjoin {
namespace {

// LibTorch has this key for torchdistx, which is no longer developed; nothing else registers a fallback for it, as this would fail
// when the program starts.
constexpr c10::DispatchKey kMark = c10::DispatchKey::DeferredInit;

/// The keys of a tensor that exists: what a mark changes.
struct Keys : c10::TensorImpl {
  static c10::DispatchKeySet& of(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl()->*(&Keys::key_set_); }
};

/// A marked tensor, which its views find by the storage that they share.
struct Marked {
  MarkedTensors* owner;
  size_t place;
  int marks = 0;  // in this memory
};

class Known {
 public:
  void insert(const c10::StorageImpl* memory, Marked marked) {
    const std::unique_lock lock(mutex_);
    const auto [at, is_new] = marked_.emplace(memory, marked);
    require(is_new || (at->second.owner == marked.owner && at->second.place == marked.place),
            "Mark: expected tensors with memory of their own, got two that share it");
    ++at->second.marks;
  }
  void erase(const c10::StorageImpl* memory) {
    const std::unique_lock lock(mutex_);
    const auto at = marked_.find(memory);
    if (--at->second.marks == 0) marked_.erase(at);
  }
  /// With no owner where the tensor is no longer marked, as a view may outlive the mark.
  Marked find(const at::Tensor& tensor) const {
    const std::shared_lock lock(mutex_);
    const auto found = marked_.find(tensor.storage().unsafeGetStorageImpl());
    return found == marked_.end() ? Marked{nullptr, 0, 0} : found->second;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const c10::StorageImpl*, Marked> marked_;
};

Known& known() {
  static Known all;
  return all;
}

/// Whether an operation only looks at the sizes and the type of its arguments.
bool reads_no_elements(const std::string& name) {
  return name.ends_with("_like") || name.starts_with("aten::new_") || name == "aten::is_same_size";
}

/// Whether an operation writes to an argument, or to the tensors of a list.
bool writes(const c10::AliasInfo* argument) {
  return argument != nullptr &&
         (argument->isWrite() || std::ranges::any_of(argument->containedTypes(), &c10::AliasInfo::isWrite));
}

void for_each_tensor(const c10::IValue& value, const auto& work) {
  if (value.isTensor()) {
    work(value.toTensor());
  } else if (value.isTensorList() || value.isList()) {
    for (const c10::IValue& item : value.toListRef())
      if (item.isTensor()) work(item.toTensor());
  }
}

/// Carries out an operation with a marked tensor among its arguments.
void carry_out(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = operation.schema();
  const c10::DispatchKeySet below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kMark);
  const auto& returns = schema.returns();
  const bool is_view = !returns.empty() && returns[0].alias_info() != nullptr && !returns[0].alias_info()->isWrite();
  // What is a view only sometimes (contiguous, reshape, to) reads by another operation, which must be seen.
  if (is_view || reads_no_elements(schema.name())) return operation.redispatchBoxed(below, stack);
  std::vector<Marked> held;
  const auto release = c10::make_scope_exit([&] {
    for (const Marked& marked : held) marked.owner->end_read(marked.place);
  });
  const size_t count = schema.arguments().size();
  for (size_t i = 0; i < count; ++i)
    for_each_tensor((*stack)[stack->size() - count + i], [&](const at::Tensor& tensor) {
      if (!tensor.defined() || !tensor.key_set().has(kMark) || !tensor.has_storage()) return;
      const Marked marked = known().find(tensor);
      if (marked.owner == nullptr) return;
      if (writes(schema.arguments()[i].alias_info())) marked.owner->write(marked.place, schema.name());
      if (schema.name() == "aten::_has_compatible_shallow_copy_type") marked.owner->write(marked.place, "set_data");
      marked.owner->begin_read(marked.place);
      held.push_back(marked);
    });
  const Unseen unseen;
  operation.redispatchBoxed(below, stack);
}

/// at::embedding of a marked table.
at::Tensor embedding(c10::DispatchKeySet keys, const at::Tensor& table, const at::Tensor& ids, int64_t padding_idx,
                     bool scales_by_frequency, bool is_sparse) {
  if (!scales_by_frequency && !is_sparse)
    if (at::Tensor vectors = looked_up(table, ids, padding_idx); vectors.defined()) return vectors;
  static const c10::OperatorHandle operation = c10::Dispatcher::singleton().findSchemaOrThrow("aten::embedding", "");
  torch::jit::Stack stack{table, ids, padding_idx, scales_by_frequency, is_sparse};
  carry_out(operation, keys, &stack);
  return stack[0].toTensor();
}

TORCH_LIBRARY_IMPL(_, DeferredInit, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&carry_out>());
}
TORCH_LIBRARY_IMPL(aten, DeferredInit, library) {
  library.impl("embedding", TORCH_FN(embedding));
}

}  // namespace

at::Tensor MarkedTensors::look_up(size_t, const at::Tensor&, const at::Tensor&, int64_t) {
  return {};
}

at::Tensor looked_up(const at::Tensor& table, const at::Tensor& ids, int64_t padding_idx) {
  if (!table.key_set().has(kMark) || !table.has_storage()) return {};
  const Marked marked = known().find(table);
  if (marked.owner == nullptr) return {};
  return marked.owner->look_up(marked.place, table, ids, padding_idx);
}

Unseen::Unseen() : guard_(kMark) {}

Mark::Mark(at::Tensor tensor, MarkedTensors& owner, size_t place)
    : tensor_(std::move(tensor)), memory_(tensor_.storage()) {
  known().insert(memory_.unsafeGetStorageImpl(), {&owner, place});
  Keys::of(tensor_) = Keys::of(tensor_).add(kMark);
}

Mark::~Mark() {
  Keys::of(tensor_) = Keys::of(tensor_).remove(kMark);
  known().erase(memory_.unsafeGetStorageImpl());
}

}  // namespace adjoin
