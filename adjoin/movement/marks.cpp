#include "adjoin/movement/marks.hpp"

#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/intercept.hpp"

namespace adjoin {
namespace {

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

/// at::embedding of a marked table whose owner looks the rows up itself; false for other operations.
bool look_up(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  static const c10::OperatorHandle embedding = c10::Dispatcher::singleton().findSchemaOrThrow("aten::embedding", "");
  if (!(operation == embedding)) return false;
  const auto argument = [&](size_t i) -> const c10::IValue& { return torch::jit::peek(*stack, i, 5); };
  if (argument(3).toBool() || argument(4).toBool()) return false;  // scaled or sparse gradients
  at::Tensor vectors = looked_up(argument(0).toTensor(), argument(1).toTensor(), argument(2).toInt());
  if (!vectors.defined()) return false;
  torch::jit::drop(*stack, 5);
  stack->emplace_back(std::move(vectors));
  return true;
}

}  // namespace

void carry_out_marked(const c10::OperatorHandle& operation, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (look_up(operation, stack)) return;
  const c10::FunctionSchema& schema = operation.schema();
  const c10::DispatchKeySet below = below_intercepted(keys);
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
      if (!is_intercepted(tensor) || !tensor.has_storage()) return;
      const Marked marked = known().find(tensor);
      if (marked.owner == nullptr) return;
      if (writes(schema.arguments()[i].alias_info())) marked.owner->write(marked.place, schema.name());
      if (schema.name() == "aten::_has_compatible_shallow_copy_type") marked.owner->write(marked.place, "set_data");
      marked.owner->begin_read(marked.place);
      held.push_back(marked);
    });
  std::optional<Unseen> unseen;
  if (!held.empty()) unseen.emplace();
  operation.redispatchBoxed(below, stack);
}

at::Tensor MarkedTensors::look_up(size_t, const at::Tensor&, const at::Tensor&, int64_t) {
  return {};
}

at::Tensor looked_up(const at::Tensor& table, const at::Tensor& ids, int64_t padding_idx) {
  if (!is_intercepted(table) || !table.has_storage()) return {};
  const Marked marked = known().find(table);
  if (marked.owner == nullptr) return {};
  return marked.owner->look_up(marked.place, table, ids, padding_idx);
}

Unseen::Unseen() : guard_(kIntercepted) {}

Mark::Mark(at::Tensor tensor, MarkedTensors& owner, size_t place)
    : tensor_(std::move(tensor)), memory_(tensor_.storage()) {
  known().insert(memory_.unsafeGetStorageImpl(), {&owner, place});
  Keys::of(tensor_) = Keys::of(tensor_).add(kIntercepted);
}

Mark::~Mark() {
  Keys::of(tensor_) = Keys::of(tensor_).remove(kIntercepted);
  known().erase(memory_.unsafeGetStorageImpl());
}

}  // namespace adjoin
