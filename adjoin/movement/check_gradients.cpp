#include "adjoin/movement/check_gradients.hpp"

#include <c10/core/StorageImpl.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <string_view>
#include <utility>

#include "adjoin/base/error.hpp"
#include "adjoin/comm/call.hpp"
#include "adjoin/movement/distributed_tensor.hpp"
#include "adjoin/movement/graph_notes.hpp"
#include "adjoin/movement/kinds_along.hpp"

namespace adjoin {
namespace {

using What = GraphNote::What;

/// The kind of what an operation makes of two values; empty where they do not go together.
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

class Check {
 public:
  Check(const std::vector<KnownTensor>& parameters, const std::vector<KnownTensor>& inputs, const Grid& grid)
      : along_(grid) {
    for (const KnownTensor& tensor : parameters) add(tensor);
    for (const KnownTensor& tensor : inputs) add(tensor);
  }

  /// `loss_kinds`: none where it is no loss.
  void run(const at::Tensor& loss, const std::map<std::string, Kind>* loss_kinds) {
    const GraphNotes graph(loss, edges_);
    const std::vector<Value> values = values_of({.notes = &graph});
    for (size_t axis = 0; loss_kinds && axis < along_.axes().size(); ++axis) {
      const auto said = loss_kinds->find(along_.axes()[axis]);
      const KindSet is = values.back().kinds[axis];
      const KindSet expected = said == loss_kinds->end() ? kReplicated | kDiffers : set_of(said->second);
      if (!(is & expected)) fail_loss({&graph, &values}, axis, is);
    }
  }

 private:
  struct Value {
    KindSets kinds;
    const KnownTensor* known = nullptr;
  };
  struct Graph {
    const GraphNotes* notes;
    const std::vector<Value>* values = nullptr;
    const Graph* outer = nullptr;  // of a segment: that which has it
    const GraphNote* segment = nullptr;
  };
  using Edge = torch::autograd::Edge;

  void add(const KnownTensor& tensor) {
    if (!tensor.tensor.defined()) return;
    KindSets kinds(along_.axes().size(), kAnything);
    if (const auto* layout = std::get_if<Layout>(&tensor.kinds))
      kinds = along_.of(*layout, tensor.world);
    else
      for (const auto& [name, kind] : std::get<1>(tensor.kinds))
        for (size_t axis = 0; axis < kinds.size(); ++axis)
          if (along_.axes()[axis] == name) kinds[axis] = set_of(kind);
    if (tensor.tensor.requires_grad()) {
      const Edge edge = torch::autograd::impl::gradient_edge(tensor.tensor);
      if (by_edge_.try_emplace({edge.function.get(), edge.input_nr}, Value{kinds, &tensor}).second)
        edges_.push_back(edge);
      return;
    }
    for (KindSet& set : kinds)
      if (set == kReplicated || set == kCopied) set = kConstant;  // nothing asks for its gradient
    if (tensor.tensor.has_storage())
      by_storage_.try_emplace(tensor.tensor.storage().unsafeGetStorageImpl(), Value{kinds, &tensor});
  }

  std::vector<Value> values_of(Graph graph) const {
    std::vector<Value> values;
    values.reserve(graph.notes->notes().size());
    graph.values = &values;
    for (const GraphNote& note : graph.notes->notes()) values.push_back(value_of(graph, note));
    return values;
  }

  Value value_of(const Graph& graph, const GraphNote& note) const {
    const auto otherwise = [&](KindSet set) { return Value{KindSets(along_.axes().size(), set)}; };
    switch (note.what) {
      case What::leaf: {
        const auto found = by_edge_.find({note.leaf.function.get(), note.leaf.input_nr});
        return found == by_edge_.end() ? otherwise(kAnything) : found->second;
      }
      case What::input:
        return (*graph.outer->values)[graph.segment->operands[note.input]];
      case What::untracked: {
        const auto found = by_storage_.find(note.storage);
        return found == by_storage_.end() ? otherwise(kAnything) : found->second;
      }
      case What::number:
        return otherwise(kConstant);
      case What::operation:
        return {result_of(graph, note)};
      case What::movement:
        return {moved(graph, note)};
      case What::segment:
        break;
    }
    if (!note.segment) return otherwise(kAnything);
    return {values_of({.notes = note.segment.get(), .outer = &graph, .segment = &note}).back().kinds};
  }

  KindSets result_of(const Graph& graph, const GraphNote& note) const {
    if (note.operands.empty() || note.sums_inside) return KindSets(along_.axes().size(), kAnything);
    KindSets result = (*graph.values)[note.operands[0]].kinds;
    for (size_t axis = 0; axis < result.size(); ++axis) {
      for (const size_t operand : note.operands) {
        const KindSet before = result[axis], other = (*graph.values)[operand].kinds[axis];
        result[axis] = together(before, other);
        if (result[axis] == 0) fail_together(graph, note, axis);
      }
    }
    return result;
  }

  KindSets moved(const Graph& graph, const GraphNote& note) const {
    const Effect effect = effect_of(*note.kinds);
    KindSets kinds = (*graph.values)[note.operands[0]].kinds;
    for (size_t axis = 0; axis < kinds.size(); ++axis) {
      if (effect.keeps[axis]) continue;
      if (!(kinds[axis] & effect.takes[axis])) fail_movement(graph, note, axis, effect.takes[axis]);
      kinds[axis] = effect.gives[axis];
    }
    return kinds;
  }

  Effect effect_of(const MovedKinds& moved) const {
    const size_t axes = along_.axes().size();
    Effect effect{KindSets(axes, kAnything), KindSets(axes, kAnything), std::vector<bool>(axes, moved.keeps)};
    if (moved.layouts) {
      const auto& [from, to] = *moved.layouts;
      effect.takes = along_.of(from, moved.group);
      effect.gives = along_.of(to, moved.group);
      // What is copied, or partial, on both sides is moved at each coordinate alone.
      for (size_t axis = 0; axis < axes; ++axis) {
        const std::optional<Kind> kind = kind_along(from, axis);
        effect.keeps[axis] = kind && kind == kind_along(to, axis) && (*kind == Kind::copied || *kind == Kind::partial);
      }
      return effect;
    }
    const auto ranks = moved.group.world_ranks();
    const auto spans = along_.spanned({ranks.begin(), ranks.end()});
    for (size_t axis = 0; spans && axis < axes; ++axis) {
      if (!(*spans)[axis]) effect.keeps[axis] = true;
      effect.takes[axis] = set_of(moved.from);
      effect.gives[axis] = set_of(moved.to);
    }
    return effect;
  }

  /// Of an axis that the layout's grid has under the same name.
  std::optional<Kind> kind_along(const Layout& layout, size_t axis) const {
    for (const GridShape::Axis& own : layout.grid().axes())
      if (own.name == along_.axes()[axis]) return layout.kind(own.name);
    return std::nullopt;
  }

  /// Where a value of these kinds alone comes from: behind all operations, a parameter, an input or a movement.
  std::string origin(Graph graph, size_t place, size_t axis, KindSet kinds) const {
    for (;;) {
      const GraphNote& note = graph.notes->notes()[place];
      if (note.what == What::input) {
        place = graph.segment->operands[note.input];
        graph = Graph(*graph.outer);
        continue;
      }
      if (const KnownTensor* known = (*graph.values)[place].known) return "'" + known->name + "'";
      if (note.what == What::movement)
        return std::string("from ") + note.kinds->name + (note.caller ? " at " + describe(*note.caller) : "");
      if (note.what == What::segment) return "from a segment that is computed again";
      const auto next = std::ranges::find_if(note.operands, [&](size_t operand) {
        const KindSet set = (*graph.values)[operand].kinds[axis];
        return set != 0 && (set & ~kinds) == 0;
      });
      if (next == note.operands.end()) return "from " + (note.name.empty() ? "a tensor without a name" : note.name);
      place = *next;
    }
  }

  [[noreturn]] void fail(size_t axis, const std::string& text) const {
    throw InvalidArgument("gradients along " + along_.axes()[axis] + ": " + text);
  }

  [[noreturn]] void fail_together(const Graph& graph, const GraphNote& note, size_t axis) const {
    const auto find = [&](KindSet without) {
      for (const size_t operand : note.operands)
        if (!((*graph.values)[operand].kinds[axis] & without)) return operand;
      return note.operands[0];
    };
    const size_t replicated = find(kCopied | kDiffers), other = find(kReplicated);
    const bool differs = ((*graph.values)[other].kinds[axis] & kDiffers) != 0;
    const std::string whose = origin(graph, replicated, axis, kReplicated);
    const bool is_parameter = whose.starts_with('\'');
    fail(axis, (is_parameter ? whose : "a tensor (" + whose + ")") + " is replicated, but " + note.name +
                   " uses it with one that " + (differs ? "differs between ranks" : "each rank has a copy of") + " (" +
                   origin(graph, other, axis, kCopied | kDiffers) +
                   "): its gradient would be a summand on each rank. " +
                   (is_parameter ? "Declare it copied or call copy_to on it" : "Call copy_to on it first") +
                   (differs ? ", or gather or sum the other operand first"
                            : ", or take a replicated one in place of the other"));
  }

  [[noreturn]] void fail_loss(const Graph& graph, size_t axis, KindSet is) const {
    const std::string from = " (" + origin(graph, graph.values->size() - 1, axis, is) + ")";
    if (is == kReplicated) fail(axis, "the loss is replicated" + from + ", and was to be a summand on each rank");
    fail(axis,
         std::string("the loss ") +
             (is & kCopied ? "is the same on all ranks, each of which begins backward from its copy"
                           : "differs between ranks") +
             from +
             (is & kCopied ? ": every gradient would count once for each rank" : ", and was to be the same on all") +
             ". End with what is replicated: reduce_from in place of all_sum_reduce, gather_from in place of "
             "all_gather, or a parameter that is declared replicated");
  }

  [[noreturn]] void fail_movement(const Graph& graph, const GraphNote& note, size_t axis, KindSet takes) const {
    const KindSet is = (*graph.values)[note.operands[0]].kinds[axis];
    const char* const expected = takes == kReplicated ? "a tensor that is replicated"
                                 : takes == kCopied   ? "a tensor that each rank has a copy of"
                                                      : "a tensor that differs between ranks";
    const char* const got = is == kReplicated ? "is replicated" : is & kDiffers ? "differs between ranks" : "is copied";
    const std::string advice =
        takes == kReplicated
            ? (is & kDiffers
                   ? "Sum or gather it first, by reduce_from or gather_from"
                   : "Leave this out, or make its input by reduce_from or gather_from, or declare it replicated")
        : takes == kCopied ? "Call copy_to on it, or sum it, first"
                           : "Leave this out, as all ranks have the whole already, or call it on each rank's part";
    fail(axis, std::string(note.kinds->name) + (note.caller ? " at " + describe(*note.caller) : "") + " expects " +
                   expected + ", but its input " + got + " (" + origin(graph, note.operands[0], axis, is) +
                   "): the gradient behind it would be another than one rank's. " + advice);
  }

  KindsAlong along_;
  std::vector<Edge> edges_;
  std::map<std::pair<const torch::autograd::Node*, uint32_t>, Value> by_edge_;
  std::map<const void*, Value> by_storage_;
};

}  // namespace

void check_gradients(const at::Tensor& loss, const std::vector<KnownTensor>& parameters,
                     const std::vector<KnownTensor>& inputs, const Grid& grid,
                     const std::map<std::string, Kind>& loss_kinds) {
  if (grid.has_me()) Check(parameters, inputs, grid).run(loss, &loss_kinds);
}

void check_gradients_of_stage(const at::Tensor& output, const std::vector<KnownTensor>& parameters,
                              const std::vector<KnownTensor>& inputs, const Grid& grid) {
  if (grid.has_me()) Check(parameters, inputs, grid).run(output, nullptr);
}

KnownTensor known_tensor(std::string name, const DistributedTensor& x) {
  return {std::move(name), x.local, x.layout, x.grid.world()};
}

}  // namespace adjoin
