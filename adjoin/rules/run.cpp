#include <c10/core/AutogradState.h>
#include <c10/util/ScopeExit.h>

#include <iostream>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/autocast_mode.hpp"
#include "adjoin/nn/distributed/linked.hpp"
#include "adjoin/rules/call.hpp"
#include "adjoin/rules/prepared.hpp"

namespace adjoin::rules {
namespace {

/// Operations that return a number, which all workers need.
const std::set<std::string> kOfNumbers{"aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero"};

/// One call of an operator whose arguments are on the stack.
class Call {
 public:
  Call(const c10::OperatorHandle& handle, c10::DispatchKeySet keys, Stack* stack)
      : handle_(handle),
        keys_(keys),
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
      if (self_.defined() && is_global(self_)) {
        auto& copied = piece_of(self_).copied;
        require(!copied || copied->of.unique(), [&] {
          return schema_.name() +
                 ": expected a tensor of its own memory, got a view that is a copy here, as its elements had to move; "
                 "clone it first, or write to what it is a view of";
        });
        copied.reset();  // nothing else has the memory of which it is a view
      }
    }
  }

  void run(const Known* known) {
    const bool all_come = c10::impl::tls_is_dispatch_key_included(kIntercepted);
    c10::impl::tls_set_dispatch_key_included(kIntercepted, false);  // what runs on pieces need not come here
    const auto end = c10::make_scope_exit([&] {
      c10::impl::tls_set_dispatch_key_included(kIntercepted, all_come);
      if (self_.defined() && is_global(self_)) note_write(self_);  // also where it fails
    });
    check_plain_operands(schema_, Arguments(&stack_[first_], count_), home_->grid);
    if (find_way(known)) return;
    if (is_composite(handle_)) {
      c10::impl::tls_set_dispatch_key_included(kIntercepted, all_come);
      return run_parts(handle_, keys_, &stack_);
    }
    gather();
  }

 private:
  /// Carries it out by its rule; false where it has none for these arguments.
  bool find_way(const Known* known) {
    if (known == nullptr || (self_.defined() && !is_global(self_))) {
      sum_up_self();
      return false;
    }
    Key key(schema_);
    for (size_t i = 0; i < count_; ++i)
      if (schema_.arguments()[i].type()->kind() != c10::TypeKind::NumberType) key.add(argument(i));
    Cache& cache = cache_of(*home_);
    auto found = cache.find(key);
    if (found == cache.end()) found = cache.emplace(std::move(key), prepared(known->rule)).first;
    if (!found->second.way) return sum_up_self() && find_way(known);
    carry_out(found->second, known->is_product);
    return true;
  }

  /// Computes with whole tensors on all workers.
  void gather() {
    const bool draws = this->draws(), reads = !draws || reads_elements();
    if (reads) tell();
    if (!home_->grid.has_me()) {
      require(!kOfNumbers.contains(schema_.name()) && (!self_.defined() || is_global(self_)), [&] {
        return schema_.name() + ": expected a rank of the grid " + home_->grid.shape().to_string() +
               ", as it asks for elements; others have none";
      });
      if (draws) ++home_->drawn;
      return run_elsewhere(handle_, stack_, nullptr, std::nullopt, self_, home_);
    }
    const c10::IValue viewed = is_view() ? argument(0) : c10::IValue();
    bool copies = false;
    if (viewed.isTensor() && is_global(viewed.toTensor())) {
      const Layout& from = piece_of(viewed.toTensor()).layout;
      copies = !home_->move_between(from, home_->everywhere(from.shape())).keeps_memory();
    }
    for (size_t i = 0; i < count_; ++i)
      if (!(i == 0 && self_.defined() && !is_global(self_)))
        replace(argument(i), [&](const at::Tensor& tensor) {
          const at::Tensor all = reads ? whole(tensor) : at::empty(tensor.sizes(), tensor.options());
          note_statistics(i, tensor, all, home_->everywhere(tensor.sizes().vec()));
          return i == 0 && self_.defined() ? all.view_as(all)
                                           : all;  // so that only values of a piece can change, not its sizes
        });
    const at::Tensor self = self_;
    if (draws) {
      const auto taking = with_generator(handle_, stack_, *home_);
      require(taking.has_value(),
              [&] { return schema_.name() + ": there is no rule for it, and workers would draw unlike numbers"; });
      taking->callBoxed(&stack_);
    } else {
      handle_.callBoxed(&stack_);
    }
    keep_statistics();
    if (self.defined() && !is_global(self)) return;
    if (self.defined()) {
      note_write(self);
      const GlobalPiece& piece = piece_of(self);
      const at::Tensor result = stack_[first_].toTensor(), local = read_piece(self);
      const Layout from = home_->everywhere(result.sizes().vec());
      require(from.shape() == piece.layout.shape(),
              [&] { return schema_.name() + ": a global tensor cannot be resized"; });
      local.copy_(home_->move_between(from, home_->interned(nn::summed(piece.layout)))(result));
      was_written(self, local);
      stack_[first_] = self;
      return;
    }
    for (size_t i = first_; i < stack_.size(); ++i)
      replace(stack_[i], [&](const at::Tensor& tensor) {
        return view_of(viewed, copies, global(tensor, home_->everywhere(tensor.sizes().vec()), home_));
      });
  }

  /// Running statistics, to which an operation writes though its schema does not say so.
  void note_statistics(size_t i, const at::Tensor& tensor, const at::Tensor& read, const Layout& layout) {
    if (schema_.name().ends_with("_norm") && schema_.arguments()[i].name().starts_with("running_"))
      statistics_.push_back({tensor, read, layout});
  }
  /// Takes back those that had to move.
  void keep_statistics() {
    const at::NoGradGuard no_gradient;
    for (const auto& [tensor, read, layout] : statistics_) {
      const at::Tensor own = is_global(tensor) ? read_piece(tensor) : tensor;
      const Layout to = is_global(tensor) ? piece_of(tensor).layout : home_->everywhere(tensor.sizes().vec());
      if (!read.is_alias_of(own)) own.copy_(home_->move_between(layout, to)(read));
    }
  }

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

  /// Whether it needs more of its operands than their sizes, where it draws.
  bool reads_elements() {
    int tensors = 0;
    for (size_t i = 0; i < count_; ++i) for_each_tensor(argument(i), [&](const at::Tensor&) { ++tensors; });
    return tensors > 1 || !(self_.defined() || schema_.name().ends_with("_like"));
  }

  /// Takes the sums of a tensor that is to be written where they are open. Returns whether there were any.
  bool sum_up_self() {
    if (!is_global(self_) || piece_of(self_).layout.axes(Kind::partial).empty()) return false;
    GlobalPiece& piece = piece_of(self_);
    require(piece.local.storage().use_count() == 1, [&] {
      return schema_.name() +
             ": expected a tensor of its own memory, as it is written where a sum over workers is not yet taken";
    });
    const Layout layout = home_->interned(nn::summed(piece.layout));
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
      for (const Layout& layout : *layouts) result.links = result.links || nn::leaves_some_out(layout, home_->grid);
    return result;
  }

  void carry_out(const Prepared& prepared, bool is_product) {
    const Way& way = *prepared.way;
    const std::optional<at::ScalarType> type = is_product ? type_of_products(at::kCPU) : std::nullopt;
    if (!home_->grid.has_me()) return run_elsewhere(handle_, stack_, &way, type, self_, home_);
    const bool links = prepared.links && !self_.defined() && schema_.returns()[0].alias_info() == nullptr;
    const c10::IValue viewed = is_view() ? argument(0) : c10::IValue();
    std::vector<at::Tensor> pieces;  // where they are needed
    size_t operand = 0;
    for (size_t i = 0; i < count_; ++i)
      replace(argument(i), [&](const at::Tensor& tensor) {
        if (is_number(tensor)) return tensor;
        const Layout& read = way.reads[operand++];
        const bool casts = type && tensor.scalar_type() == at::kFloat;
        const bool stays = !casts && is_global(tensor) && piece_of(tensor).layout.id() == read.id();
        at::Tensor piece = stays ? read_piece(tensor) : moved(tensor, read, *home_, casts ? type : std::nullopt);
        if (links) pieces.push_back(piece);
        note_statistics(i, tensor, piece, read);
        return piece;
      });
    for (const auto& [place, value] : way.arguments) argument(place) = value;
    // Where a worker has nothing, LibTorch's general formula of a view that is written later leaves gradients out of the graph.
    c10::AutogradState& autograd = c10::AutogradState::get_tls_state();
    const bool replayed = autograd.get_view_replay_enabled();
    const auto end = c10::make_scope_exit([&] { autograd.set_view_replay_enabled(replayed); });
    if (prepared.links && is_view()) autograd.set_view_replay_enabled(true);
    if (way.kernel)
      put(way.kernel(Arguments(&stack_[first_], count_)), schema_, stack_);
    else
      handle_.callBoxed(&stack_);
    keep_statistics();
    if (self_.defined()) {
      was_written(self_, stack_[first_].toTensor());
      stack_[first_] = self_;
      return;
    }
    size_t result = 0;
    for (size_t i = first_; i < stack_.size(); ++i)
      replace(stack_[i], [&](const at::Tensor& local) {
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
            global(links && has_gradients(local) ? nn::linked(local, pieces).clone() : local, way.makes[here], home_));
      });
  }

  /// Whether LibTorch's result has the memory of the first argument.
  bool is_view() const {
    return !schema_.returns().empty() && schema_.returns()[0].alias_info() != nullptr && !self_.defined();
  }
  /// Says of a result that is a copy here, or a view of one, what it would be a view of.
  at::Tensor view_of(const c10::IValue& viewed, bool copies, at::Tensor result) const {
    if (!viewed.isTensor() || !is_global(viewed.toTensor())) return result;
    const GlobalPiece& from = piece_of(viewed.toTensor());
    const bool records = c10::GradMode::is_enabled(), is_alias = piece_of(result).local.is_alias_of(from.local);
    if (is_alias && !copies && (records || viewed.toTensor().requires_grad() || from.views))
      set_view(result, viewed.toTensor(), /*is_in_graph=*/records && schema_.name() != "aten::detach");
    if (from.copied) {
      piece_of(result).copied = from.copied;
    } else if (copies) {
      const c10::VariableVersion& memory = from.local.unsafeGetTensorImpl()->version_counter();
      piece_of(result).copied = {memory, memory.current_version()};
    }
    return result;
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
  const c10::DispatchKeySet keys_;
  const c10::FunctionSchema& schema_;
  Stack& stack_;
  const size_t count_, first_;
  std::shared_ptr<GlobalGrid> home_;
  at::Tensor self_;  // that is written in place
  struct Statistics {
    at::Tensor tensor, read;
    Layout layout;
  };
  std::vector<Statistics> statistics_;
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
  if (known == nullptr && is_composite(handle)) return run_parts(handle, keys, stack);
  if (known == nullptr && handle.schema().name().starts_with("aten::_foreach_")) {
    // LibTorch's kernel for CPUs calls the operation of each tensor, with its gradient.
    handle.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    return;
  }
  Call(handle, keys, stack).run(known);
}

}  // namespace

}  // namespace adjoin::rules

/// The linker is told to request this name (CMakeLists.txt), so that every program that links adjoin contains it.
extern "C" const bool adjoin_rules_are_known;
const bool adjoin_rules_are_known =
    (adjoin::set_global_operations(adjoin::rules::carry_out, adjoin::rules::draw_alike), true);
