#include "adjoin/movement/check_gradients.hpp"

#include <torch/csrc/autograd/variable.h>

#include <string_view>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/contract/call.hpp"
#include "adjoin/movement/distributed_tensor.hpp"
#include "adjoin/movement/forward_record.hpp"
#include "adjoin/movement/graph_notes.hpp"
#include "adjoin/movement/kinds_along.hpp"

namespace adjoin {
namespace {

using What = GraphNote::What;

/// The kind of the result of an operation on two values; empty where they must not be combined.
KindSet together(KindSet a, KindSet b) {
  KindSet both = a & b & kConstant;
  if (((a & kDiffers) && (b & (kCopied | kDiffers))) || ((b & kDiffers) && (a & kCopied))) both |= kDiffers;
  return both;
}

/// What a movement does along each axis of the check.
struct Effect {
  KindSets takes, gives;
  std::vector<bool> keeps;
};

const char* property(KindSet set) {
  return set == kReplicated ? "is replicated" : set & kDiffers ? "differs between ranks" : "is copied";
}

class Check {
 public:
  Check(const at::Tensor& of, const std::vector<KnownTensor>& parameters, const std::vector<KnownTensor>& inputs,
        const Grid& grid)
      : along_(grid), graph_(of) {
    for (const KnownTensor& tensor : parameters) add(tensor);
    for (const KnownTensor& tensor : inputs) {
      check_shape(tensor);
      add(tensor);
    }
    if (const ForwardRecord* const notes = ForwardRecord::current())
      for (const KnownTensor& tensor : notes->stated()) add(tensor);
    values_.reserve(graph_.notes().size());
    for (const GraphNote& note : graph_.notes()) values_.push_back(value_of(note));
  }

  void check_loss(const std::map<std::string, Kind>& loss_kinds) const {
    for (size_t axis = 0; axis < along_.axes().size(); ++axis) {
      const auto said = loss_kinds.find(along_.axes()[axis]);
      const KindSet is = values_.back().kinds[axis];
      const KindSet expected = said == loss_kinds.end() ? kReplicated | kDiffers : set_of(said->second);
      if (!(is & expected)) fail_loss(axis, is);
    }
  }

 private:
  using Node = torch::autograd::Node;
  struct Value {
    KindSets kinds;
    const KnownTensor* known = nullptr;
  };
  struct Known {
    torch::autograd::Edge edge;  // keeps the node, so that no other node gets its address
    Value value;
  };

  void add(const KnownTensor& known) {
    const at::Tensor& tensor = known.tensor;
    if (!tensor.defined()) return;
    Value value{kinds_of(known), &known};
    if (tensor.requires_grad()) {
      const torch::autograd::Edge edge = torch::autograd::impl::gradient_edge(tensor);
      by_node_[edge.function.get()].push_back({edge, std::move(value)});
      return;
    }
    value.kinds = without_gradient(value.kinds);
    if (const auto memory = memory_of(tensor)) by_memory_.try_emplace(*memory, std::move(value));
  }

  static void check_shape(const KnownTensor& known) {
    const auto* const layout = std::get_if<Layout>(&known.kinds);
    if (!layout || !known.tensor.defined()) return;
    const std::vector<int64_t> expected = layout->shape_on(known.world.rank());
    require(known.tensor.sizes() == expected, [&] {
      return "gradients: '" + known.name + "' has shape " + shape_text(known.tensor.sizes().vec()) +
             ", but the layout " + layout->to_string() + " expects " + shape_text(expected) +
             " on this rank. A movement before it is missing or is the wrong one";
    });
  }

  static KindSets without_gradient(KindSets kinds) {
    for (KindSet& set : kinds)
      if (set & kConstant) set |= kConstant;  // without a gradient the two do not differ
    return kinds;
  }

  KindSets all(KindSet set) const { return KindSets(along_.axes().size(), set); }

  KindSets kinds_of(const KnownTensor& known) const {
    if (const auto* layout = std::get_if<Layout>(&known.kinds)) return along_.of(*layout, known.world);
    const auto& said = std::get<1>(known.kinds);
    KindSets kinds = all(kAnything);
    for (size_t axis = 0; axis < kinds.size(); ++axis)
      if (const auto kind = said.find(along_.axes()[axis]); kind != said.end()) kinds[axis] = set_of(kind->second);
    return kinds;
  }

  /// Where the caller has stated what a value is, the computed kinds must agree.
  Value value_of(const GraphNote& note) const {
    Value value = made_by(note);
    const auto found = by_node_.find(note.node);
    if (found == by_node_.end()) return value;
    for (const Known& known : found->second) {
      for (size_t axis = 0; axis < value.kinds.size(); ++axis) {
        const KindSet is = value.kinds[axis], expected = known.value.kinds[axis];
        if (!(is & expected)) fail_known(note, axis, known.value.known->name, is, expected);
        value.kinds[axis] = is & expected;
      }
      value.known = known.value.known;
    }
    return value;
  }

  Value made_by(const GraphNote& note) const {
    switch (note.what) {
      case What::untracked:
        if (const auto found = note.memory ? by_memory_.find(*note.memory) : by_memory_.end();
            found != by_memory_.end())
          return found->second;
        return {all(kAnything)};
      case What::number:
        return {all(kConstant)};
      case What::operation:
        return {result_of(note)};
      case What::movement:
        return {moved_by(note)};
      case What::untracked_movement:
        return {without_gradient(moved_by(note))};
      default:
        return {all(kAnything)};
    }
  }

  KindSets result_of(const GraphNote& note) const {
    if (note.operands.empty() || note.sums_inside) return all(kAnything);
    KindSets result = values_[note.operands[0]].kinds;
    for (size_t axis = 0; axis < result.size(); ++axis) {
      for (const size_t operand : note.operands) {
        result[axis] = together(result[axis], values_[operand].kinds[axis]);
        if (result[axis] == 0) fail_together(note, axis);
      }
    }
    return result;
  }

  KindSets moved_by(const GraphNote& note) const {
    const Effect effect = effect_of(*note.kinds);
    KindSets kinds = values_[note.operands[0]].kinds;
    for (size_t axis = 0; axis < kinds.size(); ++axis) {
      if (effect.keeps[axis] || (kinds[axis] == kAnything && note.what == What::untracked_movement)) continue;
      if (!(kinds[axis] & effect.takes[axis])) fail_movement(note, axis, effect.takes[axis]);
      kinds[axis] = effect.gives[axis];
    }
    return kinds;
  }

  Effect effect_of(const MovedKinds& moved) const {
    Effect effect{all(kAnything), all(kAnything), std::vector<bool>(along_.axes().size(), moved.keeps)};
    const auto spans = spanned(moved);
    if (!spans) return effect;
    for (size_t axis = 0; axis < spans->size(); ++axis)
      if (!(*spans)[axis]) effect.keeps[axis] = true;
    effect.takes = moved.layouts ? along_.of(moved.layouts->first, moved.group) : all(set_of(moved.from));
    effect.gives = moved.layouts ? along_.of(moved.layouts->second, moved.group) : all(set_of(moved.to));
    return effect;
  }

  std::optional<std::vector<bool>> spanned(const MovedKinds& moved) const {
    if (!moved.layouts) return along_.spanned(moved.group);
    const auto& [from, to] = *moved.layouts;
    return along_.spanned(GridShape::united(from.grid(), to.grid()).ranks(), moved.group);
  }

  /// Where a value of exactly these kinds comes from, back through all operations: a parameter, an input or a movement.
  std::string origin(size_t place, size_t axis, KindSet kinds) const {
    if (const KnownTensor* known = values_[place].known) return "'" + known->name + "'";
    return origin(graph_.notes()[place], axis, kinds);
  }
  std::string origin(const GraphNote& note, size_t axis, KindSet kinds) const {
    if (note.kinds) return "from " + text_of(note);
    for (const size_t operand : note.operands)
      if (const KindSet set = values_[operand].kinds[axis]; (set & ~kinds) == 0) return origin(operand, axis, kinds);
    return "from " + (note.name.empty() ? "a tensor without a name" : note.name);
  }

  static std::string text_of(const GraphNote& movement) {
    return movement.kinds->name + (movement.caller ? " at " + describe(*movement.caller) : "");
  }

  [[noreturn]] void fail(size_t axis, const std::string& text) const {
    throw InvalidArgument("gradients along " + along_.axes()[axis] + ": " + text);
  }

  [[noreturn]] void fail_together(const GraphNote& note, size_t axis) const {
    const auto find = [&](KindSet without) {
      for (const size_t operand : note.operands)
        if (!(values_[operand].kinds[axis] & without)) return operand;
      return note.operands[0];
    };
    const size_t replicated = find(kCopied | kDiffers), other = find(kReplicated);
    const KindSet is = values_[other].kinds[axis];
    const std::string whose = origin(replicated, axis, kReplicated);
    const bool is_named = whose.starts_with('\'');
    fail(axis, (is_named ? whose : "a tensor (" + whose + ")") + " is replicated, but " + note.name +
                   " uses it with a tensor that " + property(is) + " (" + origin(other, axis, kCopied | kDiffers) +
                   "): each rank would compute only a summand of the gradient of " +
                   (is_named ? whose : "the replicated tensor") + ". " +
                   (is_named ? "Declare it copied or call copy_to on it" : "Call copy_to on it first") +
                   (is & kDiffers ? ", or gather or sum the other operand first"
                                  : ", or use a replicated tensor as the other operand"));
  }

  [[noreturn]] void fail_known(const GraphNote& note, size_t axis, const std::string& name, KindSet is,
                               KindSet expected) const {
    fail(axis, "'" + name + "' " + property(is) + " (" + origin(note, axis, is) + "), but was declared as one that " +
                   property(expected) +
                   ". A movement before it is missing or is the wrong one, or the declaration is wrong");
  }

  [[noreturn]] void fail_loss(size_t axis, KindSet is) const {
    const std::string from = " (" + origin(values_.size() - 1, axis, is) + ")";
    if (is == kReplicated)
      fail(axis, "the loss is replicated" + from + ", but was expected to be a summand on each rank");
    fail(axis,
         std::string("the loss ") +
             (is & kCopied ? "is the same on all ranks, and each of them begins backward from its own copy"
                           : "differs between ranks") +
             from +
             (is & kCopied ? ": every gradient would count once for each rank"
                           : ", but was expected to be the same on all") +
             ". Make the loss replicated: use reduce_from in place of all_sum_reduce, use gather_from in place of "
             "all_gather, or declare the parameter replicated");
  }

  [[noreturn]] void fail_movement(const GraphNote& note, size_t axis, KindSet takes) const {
    const KindSet is = values_[note.operands[0]].kinds[axis];
    const std::string advice =
        takes == kReplicated ? (is & kDiffers ? "Sum or gather it first, with reduce_from or gather_from"
                                              : "Leave this movement out, or make its input with reduce_from or "
                                                "gather_from, or declare the input replicated")
        : takes == kCopied
            ? "Call copy_to on it, or sum it, first"
            : "Leave this movement out, since all ranks already have the whole tensor, or call it on each rank's part";
    fail(axis, text_of(note) + " expects a tensor that " + property(takes) + ", but its input " + property(is) + " (" +
                   origin(note.operands[0], axis, is) + "): the gradient would differ from that on one rank. " +
                   advice);
  }

  KindsAlong along_;
  GraphNotes graph_;
  std::map<const Node*, std::vector<Known>> by_node_;
  std::map<MemoryOf, Value> by_memory_;
  std::vector<Value> values_;  // one for each of the graph's notes
};

}  // namespace

void check_gradients(const at::Tensor& loss, const std::vector<KnownTensor>& parameters,
                     const std::vector<KnownTensor>& inputs, const Grid& grid,
                     const std::map<std::string, Kind>& loss_kinds) {
  if (grid.has_me()) Check(loss, parameters, inputs, grid).check_loss(loss_kinds);
}

void check_gradients_of_stage(const at::Tensor& output, const std::vector<KnownTensor>& parameters,
                              const std::vector<KnownTensor>& inputs, const Grid& grid) {
  if (grid.has_me()) Check(output, parameters, inputs, grid);
}

KnownTensor known_tensor(std::string name, const DistributedTensor& x) {
  return {std::move(name), x.local, x.layout, x.grid.world()};
}

}  // namespace adjoin
