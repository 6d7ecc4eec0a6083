#include <ATen/autocast_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/AutogradState.h>
#include <c10/util/ScopeExit.h>

#include <iostream>

#include "adjoin/base/error.hpp"
#include "adjoin/nn/distributed/linked.hpp"
#include "adjoin/nn/rules/operation.hpp"
#include "adjoin/nn/rules/prepared.hpp"

namespace adjoin::nn::rules {
namespace {

/// Operations that return a number, which all workers need.
const std::set<std::string> kOfNumbers{"aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero"};

/// A tensor without dims and gradient is a number, which all have.
bool is_number(const at::Tensor& tensor) {
  return !is_global(tensor) && tensor.dim() == 0 && !tensor.requires_grad();
}

/// One call of an operator whose arguments are on the stack.
class Call {
 public:
  Call(const c10::OperatorHandle& handle, Stack* stack)
      : handle_(handle),
        schema_(handle.schema()),
        stack_(*stack),
        count_(schema_.arguments().size()),
        first_(stack->size() - count_) {
    for (size_t i = 0; i < count_; ++i)
      for_each_tensor(argument(i), [&](const at::Tensor& tensor) {
        if (!is_global(tensor)) return;
        const auto& home = piece_of(tensor).home;
        if (home_ == nullptr) home_ = home;
        require(home == home_, [&] {
          return schema_.name() + ": expected global tensors on one grid, got some on " +
                 home_->grid.shape().to_string() + " and on " + home->grid.shape().to_string();
        });
      });
    for (size_t i = 0; i < count_; ++i)
      require(!writes(i) || (i == 0 && argument(0).isTensor()), [&] {
        return schema_.name() + "." + schema_.overload_name() +
               ": expected an operation that writes to its first argument alone, as lists of tensors and `out` are not "
               "written where some are global";
      });
    if (count_ > 0 && writes(0)) {
      self_ = argument(0).toTensor();
      require(!self_.defined() || !is_trained_leaf(self_), [&] {
        return schema_.name() + ": expected no leaf that requires a gradient, as it would be written in place";
      });
      require(!self_.defined() || !is_global(self_) || !piece_of(self_).copied, [&] {
        return schema_.name() +
               ": expected a tensor of its own memory, got a view that is a copy here, as its elements had to move; "
               "clone it first, or write to what it is a view of";
      });
    }
  }

  void run(const Known* known) {
    if (known == nullptr || (self_.defined() && !is_global(self_))) {
      sum_up_self();
      return gather();
    }
    Key key(schema_);
    for (size_t i = 0; i < count_; ++i)
      if (schema_.arguments()[i].type()->kind() != c10::TypeKind::NumberType) key.add(argument(i));
    Cache& cache = cache_of(*home_);
    auto found = cache.find(key);
    if (found == cache.end()) found = cache.emplace(std::move(key), prepared(known->rule)).first;
    if (!found->second.way) return sum_up_self() ? run(known) : gather();
    carry_out(found->second, known->is_product);
  }

  /// Computes with whole tensors on all workers.
  void gather() {
    require(!draws(),
            [&] { return schema_.name() + ": there is no rule for it, and workers would draw unlike numbers"; });
    tell();
    if (!home_->grid.has_me()) {
      require(!kOfNumbers.contains(schema_.name()) && (!self_.defined() || is_global(self_)), [&] {
        return schema_.name() + ": expected a rank of the grid " + home_->grid.shape().to_string() +
               ", as it asks for elements; others have none";
      });
      return run_elsewhere(nullptr, std::nullopt);
    }
    const c10::IValue viewed = is_view() ? argument(0) : c10::IValue();
    bool copies = false;
    if (viewed.isTensor() && is_global(viewed.toTensor())) {
      const Layout& from = piece_of(viewed.toTensor()).layout;
      copies = !home_->move_between(from, home_->everywhere(from.shape())).keeps_memory();
    }
    for (size_t i = 0; i < count_; ++i)
      if (!(i == 0 && self_.defined() && !is_global(self_)))
        replace(i, [&](const at::Tensor& tensor) {
          const at::Tensor all = whole(tensor);
          return i == 0 && self_.defined() ? all.view_as(all)
                                           : all;  // so that only values of a piece can change, not its sizes
        });
    const at::Tensor self = self_;
    handle_.callBoxed(&stack_);
    if (self.defined() && !is_global(self)) return;
    if (self.defined()) {
      const GlobalPiece& piece = piece_of(self);
      const at::Tensor result = stack_[first_].toTensor(), local = read_piece(self);
      const Layout from = home_->everywhere(result.sizes().vec());
      require(from.shape() == piece.layout.shape(),
              [&] { return schema_.name() + ": a global tensor cannot be resized"; });
      local.copy_(home_->move_between(from, home_->interned(summed(piece.layout)))(result));
      was_written(self, local);
      stack_[first_] = self;
      return;
    }
    for (size_t i = first_; i < stack_.size(); ++i)
      replace(i - first_, [&](const at::Tensor& tensor) {
        return view_of(viewed, copies, global(tensor, home_->everywhere(tensor.sizes().vec()), home_));
      });
  }

 private:
  c10::IValue& argument(size_t i) { return stack_[first_ + i]; }
  bool writes(size_t i) const {
    const c10::AliasInfo* alias = schema_.arguments()[i].alias_info();
    return alias != nullptr && alias->isWrite();
  }

  /// Whether it draws random numbers; attention only if it drops some.
  bool draws() const {
    if (!handle_.hasTag(at::Tag::nondeterministic_seeded)) return false;
    return schema_.name() != "aten::scaled_dot_product_attention" || stack_[first_ + 4].toDouble() != 0;
  }

  /// Replaces each tensor of an argument.
  template <class Make>
  void replace(size_t i, const Make& make) {
    c10::IValue& value = argument(i);
    if (value.isTensor()) {
      if (value.toTensor().defined()) value = make(value.toTensor());
    } else if (value.isTensorList()) {
      std::vector<at::Tensor> tensors = value.toTensorVector();
      for (at::Tensor& tensor : tensors)
        if (tensor.defined()) tensor = make(tensor);
      value = std::move(tensors);
    } else if (value.isList() && value.toList().elementType()->kind() == c10::TypeKind::OptionalType) {
      c10::List<std::optional<at::Tensor>> tensors;
      for (const c10::IValue& item : value.toListRef())
        tensors.push_back(item.isTensor() && item.toTensor().defined() ? std::optional(make(item.toTensor()))
                                                                       : std::nullopt);
      value = std::move(tensors);
    }
  }

  /// Takes the sums of a tensor that is to be written where they are open. Returns whether there were any.
  bool sum_up_self() {
    if (!is_global(self_) || piece_of(self_).layout.axes(Kind::partial).empty()) return false;
    GlobalPiece& piece = piece_of(self_);
    require(piece.local.storage().use_count() == 1, [&] {
      return schema_.name() +
             ": expected a tensor of its own memory, as it is written where a sum over workers is not yet taken";
    });
    const Layout layout = home_->interned(summed(piece.layout));
    at::Tensor sum = moved(self_, layout, *home_);
    if (sum.is_alias_of(piece.local)) sum = sum.clone();  // of one worker, whose move returns what it gets
    piece.last_moved.reset();
    piece.local.unsafeGetTensorImpl()->bump_version();
    piece.layout = layout;
    piece.local = sum;
    was_written(self_, sum);
    return true;
  }

  Prepared prepared(Rule rule) {
    Operation operation{handle_, Arguments(&stack_[first_], count_), {}, *home_, self_.defined()};
    for (size_t i = 0; i < count_; ++i)
      for_each_tensor(argument(i), [&](const at::Tensor& tensor) {
        if (!tensor.defined() || is_number(tensor)) return;
        const bool is_plain = !is_global(tensor);
        operation.operands.push_back({is_plain ? home_->everywhere(tensor.sizes().vec()) : piece_of(tensor).layout, i,
                                      is_plain && !tensor.requires_grad()});
      });
    Prepared result{{}, least_way(operation, rule), {}, false};
    for (const Operand& operand : operation.operands) result.operands.push_back(operand.layout);
    if (!result.way) return result;
    for (Layout& layout : result.way->reads) layout = home_->interned(layout);
    for (Layout& layout : result.way->makes) {
      layout = home_->interned(layout);
      result.shapes.push_back(layout.shape_on(home_->rank));
    }
    if (is_view() && !operation.operands.empty()) {
      const Layout &from = operation.operands[0].layout, &read = result.way->reads[0];
      result.copies = (from != read && !home_->move_between(from, read).keeps_memory()) ||
                      result.way->makes[0].axes(Kind::partial) != read.axes(Kind::partial);
    }
    for (const auto* layouts : {&result.way->reads, &result.way->makes})
      for (const Layout& layout : *layouts) result.links = result.links || leaves_some_out(layout, home_->grid);
    return result;
  }

  void carry_out(const Prepared& prepared, bool is_product) {
    const Way& way = *prepared.way;
    const std::optional<at::ScalarType> type = is_product ? autocast_type() : std::nullopt;
    if (!home_->grid.has_me()) return run_elsewhere(&way, type);
    const bool links = prepared.links && !self_.defined() && schema_.returns()[0].alias_info() == nullptr;
    const c10::IValue viewed = is_view() ? argument(0) : c10::IValue();
    std::vector<at::Tensor> pieces;  // where they are needed
    size_t operand = 0;
    for (size_t i = 0; i < count_; ++i)
      replace(i, [&](const at::Tensor& tensor) {
        if (is_number(tensor)) return tensor;
        const Layout& read = way.reads[operand++];
        const bool casts = type && tensor.scalar_type() == at::kFloat;
        const bool stays = !casts && is_global(tensor) && piece_of(tensor).layout.id() == read.id();
        at::Tensor piece = stays ? read_piece(tensor) : moved(tensor, read, *home_, casts ? type : std::nullopt);
        if (links) pieces.push_back(piece);
        return piece;
      });
    for (const auto& [place, value] : way.arguments) argument(place) = value;
    // Where a worker has nothing, LibTorch's general formula of a view that is written later leaves gradients out of the graph.
    c10::AutogradState& autograd = c10::AutogradState::get_tls_state();
    const bool replayed = autograd.get_view_replay_enabled();
    const auto end = c10::make_scope_exit([&] { autograd.set_view_replay_enabled(replayed); });
    if (prepared.links && is_view()) autograd.set_view_replay_enabled(true);
    if (way.kernel)
      put(way.kernel(Arguments(&stack_[first_], count_)));
    else
      handle_.callBoxed(&stack_);
    if (self_.defined()) {
      was_written(self_, stack_[first_].toTensor());
      stack_[first_] = self_;
      return;
    }
    size_t result = 0;
    for (size_t i = first_; i < stack_.size(); ++i)
      replace(i - first_, [&](const at::Tensor& local) {
        const size_t here = result++;
        require(here < way.makes.size() && local.sizes() == prepared.shapes[here], [&] {
          return schema_.name() + ": its rule expects a piece of shape " +
                 (here < way.makes.size() ? shape_text(prepared.shapes[here]) : "none") + ", got " +
                 shape_text(local.sizes().vec());
        });
        // So that all workers take part in what moves backward.
        // A copy, as what it would return could not be written in place.
        return view_of(
            viewed, prepared.copies,
            global(links && local.is_floating_point() ? linked(local, pieces).clone() : local, way.makes[here], home_));
      });
  }

  /// What a rank outside the grid has of the results: no elements. LibTorch finds their sizes and types on tensors without memory.
  void run_elsewhere(const Way* way, std::optional<at::ScalarType> type) {
    std::vector<at::Tensor> pieces;
    for (size_t i = 0; i < count_; ++i)
      replace(i, [&](const at::Tensor& tensor) {
        const bool casts = type && tensor.scalar_type() == at::kFloat;
        if (!is_number(tensor)) pieces.push_back(moved(tensor, home_->everywhere(tensor.sizes().vec()), *home_));
        return at::empty(tensor.sizes(), at::TensorOptions(casts ? *type : tensor.scalar_type()).device(at::kMeta));
      });
    handle_.callBoxed(&stack_);
    const auto here = [&](const at::Tensor& meta) {
      const at::Tensor none = at::empty({0}, meta.options().device(pieces.front().device()));
      return none.is_floating_point() ? linked(none, pieces) : none;
    };
    if (self_.defined()) {
      if (is_global(self_)) was_written(self_, here(self_));
      stack_[first_] = self_;
      return;
    }
    size_t result = 0;
    for (size_t i = first_; i < stack_.size(); ++i)
      replace(i - first_, [&](const at::Tensor& meta) {
        return global(here(meta), way != nullptr ? way->makes[result++] : home_->everywhere(meta.sizes().vec()), home_);
      });
  }

  /// Whether LibTorch's result has the memory of the first argument.
  bool is_view() const {
    return !schema_.returns().empty() && schema_.returns()[0].alias_info() != nullptr && !self_.defined();
  }
  /// Says of a result that is a copy here, or a view of one, what it would be a view of.
  static at::Tensor view_of(const c10::IValue& viewed, bool copies, at::Tensor result) {
    if (!viewed.isTensor() || !is_global(viewed.toTensor())) return result;
    const GlobalPiece& from = piece_of(viewed.toTensor());
    if (from.copied) {
      piece_of(result).copied = from.copied;
    } else if (copies) {
      const c10::VariableVersion& memory = from.local.unsafeGetTensorImpl()->version_counter();
      piece_of(result).copied = {memory, memory.current_version()};
    }
    return result;
  }

  /// Puts the results of a kernel in the place of the arguments.
  void put(std::vector<at::Tensor> results) {
    torch::jit::drop(stack_, count_);
    if (schema_.returns().size() == 1 && schema_.returns()[0].type()->kind() == c10::TypeKind::ListType)
      stack_.emplace_back(std::move(results));
    else
      for (at::Tensor& result : results) stack_.emplace_back(std::move(result));
  }

  static std::optional<at::ScalarType> autocast_type() {
    if (!at::autocast::is_autocast_enabled(at::kCPU)) return std::nullopt;
    return at::autocast::get_autocast_dtype(at::kCPU);
  }

  /// Says once that an operation has no rule, unless it asks for a number.
  void tell() {
    if (kOfNumbers.contains(schema_.name())) return;
    int64_t bytes = 0;
    for (size_t i = 0; i < count_; ++i)
      for_each_tensor(argument(i), [&](const at::Tensor& tensor) {
        if (is_global(tensor)) bytes += tensor.numel() * static_cast<int64_t>(tensor.element_size());
      });
    require(!home_->strict, [&] { return schema_.name() + ": there is no rule for it, and gathering was forbidden"; });
    std::string name = schema_.name();
    if (!schema_.overload_name().empty()) name += "." + schema_.overload_name();
    if (home_->gathered.insert(name).second && home_->rank == 0)
      std::cerr << "adjoin: " << name << " has no rule for these layouts; its operands are gathered, " << bytes
                << " bytes, and all workers compute it\n";
  }

  const c10::OperatorHandle& handle_;
  const c10::FunctionSchema& schema_;
  Stack& stack_;
  const size_t count_, first_;
  std::shared_ptr<GlobalGrid> home_;
  at::Tensor self_;  // that is written in place
};

/// Computes what an operation writes to `out`, and copies it there. Returns false for one that has no other form.
bool carry_out_to(const c10::OperatorHandle& handle, Stack* stack) {
  const auto& arguments = handle.schema().arguments();
  if (arguments.empty() || !arguments.back().is_out() || handle.schema().returns().size() != 1) return false;
  for (const char* overload : {"", "Tensor"}) {
    const auto made = c10::Dispatcher::singleton().findSchema({handle.schema().name(), overload});
    if (!made || made->schema().arguments().size() + 1 != arguments.size()) continue;
    const at::Tensor out = torch::jit::pop(*stack).toTensor();
    made->callBoxed(stack);
    stack->back() = out.copy_(stack->back().toTensor());
    return true;
  }
  return false;
}

void carry_out(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack* stack) {
  if (carry_out_to(handle, stack)) return;
  const Known* known = known_rule(handle);
  if (known == nullptr && handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
    // Its parts come here one by one.
    handle.redispatchBoxed(below_intercepted(keys), stack);
    return;
  }
  if (known == nullptr && handle.schema().name().starts_with("aten::_foreach_")) {
    // LibTorch's kernel for CPUs calls the operation of each tensor, with its gradient.
    handle.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    return;
  }
  Call(handle, stack).run(known);
}

}  // namespace

}  // namespace adjoin::nn::rules

/// The linker is told to request this name (CMakeLists.txt), so that every program that links adjoin contains it.
extern "C" const bool adjoin_rules_are_known;
const bool adjoin_rules_are_known = (adjoin::set_global_operations(adjoin::nn::rules::carry_out), true);
