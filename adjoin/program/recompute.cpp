#include "adjoin/program/recompute.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include "adjoin/base/error.hpp"
#include "adjoin/base/text.hpp"
#include "adjoin/parallel/distribute.hpp"
#include "adjoin/program/dataflow.hpp"

namespace adjoin::program {
namespace {

bool is_of_sizes(const Node& node) {
  return node.kind == Node::Kind::size || node.kind == Node::Kind::numbers || node.kind == Node::Kind::check;
}

class Grouping {
 public:
  Grouping(const Graph& graph, const std::set<Slot>& weights)
      : from_(graph),
        weights_(weights),
        flow_(graph, {}),
        graph_{.inputs = graph.inputs, .outputs = graph.outputs, .nodes = {}, .values = graph.values} {}

  Graph grouped(const std::vector<std::string>& patterns, bool all) {
    for (size_t i = 0; i < from_.nodes.size();) {
      const std::string module = module_named(from_.nodes[i], patterns);
      if (module.empty() || is_of_sizes(from_.nodes[i])) {
        graph_.nodes.push_back(from_.nodes[i++]);
        continue;
      }
      size_t end = i + 1;
      for (size_t next = end; next < from_.nodes.size(); ++next)
        if (module_named(from_.nodes[next], patterns) == module)
          end = next + 1;
        else if (!is_of_sizes(from_.nodes[next]))
          break;
      const size_t before = graph_.nodes.size();
      try {
        add_group(module, i, end);
      } catch (const InvalidArgument&) {
        if (all) throw;
        graph_.nodes.resize(before);
        for (size_t node = i; node < end; ++node) graph_.nodes.push_back(from_.nodes[node]);
      }
      i = end;
    }
    find_last_uses(graph_);
    return std::move(graph_);
  }

 private:
  /// Of nodes [begin, end) those that are kept, as they make what the module gives besides its last tensor. None where these
  /// cannot come before all others.
  std::set<size_t> nodes_kept(size_t begin, size_t end) const {
    std::vector<Slot> given;
    std::set<size_t> kept;
    for (size_t i = begin; i < end; ++i)
      for (const Slot slot : from_.nodes[i].outputs)
        if (slot != kNoSlot && flow_.read_until(slot) > end) given.push_back(slot);
    if (given.size() < 2) return {};
    std::set<Slot> needed(given.begin(), given.end() - 1);
    const auto is_needed = [&](Slot slot) { return needed.contains(slot); };
    for (size_t i = end; i-- > begin;) {
      const Node& node = from_.nodes[i];
      if (std::ranges::none_of(node.outputs, is_needed)) continue;
      const Effects& effects = flow_.effects(i);
      if (effects.draws || std::ranges::count(node.outputs, given.back()) > 0) return {};
      kept.insert(i);
      needed.insert(effects.reads.begin(), effects.reads.end());
    }
    for (size_t i = begin; i < end; ++i)
      if (!kept.contains(i) && std::ranges::any_of(flow_.effects(i).writes, is_needed)) return {};
    return kept;
  }

  /// Nodes [begin, end) as one; what computes with sizes from elsewhere, and what is kept, comes before it.
  void add_group(const std::string& module, size_t begin, size_t end) {
    Graph body{.values = from_.values};
    std::set<Slot> made, read;
    const std::set<size_t> kept = nodes_kept(begin, end);
    for (size_t i = begin; i < end; ++i) {
      const Node& node = from_.nodes[i];
      const Effects& effects = flow_.effects(i);
      const auto is_made = [&](Slot slot) { return made.contains(slot); };
      if (kept.contains(i) || (is_of_sizes(node) && std::ranges::none_of(effects.reads, is_made))) {
        graph_.nodes.push_back(node);
        continue;
      }
      require(std::ranges::all_of(effects.writes, is_made), [&] {
        return "recompute: " + node.where() + " writes to a value from elsewhere, which it would do twice";
      });
      read.insert(effects.reads.begin(), effects.reads.end());
      made.insert(node.outputs.begin(), node.outputs.end());
      body.nodes.push_back(node);
    }
    Node group{.kind = Node::Kind::recompute, .target = "recompute", .module = module};
    for (const bool are_weights : {false, true})
      for (const Slot slot : read) {
        if (made.contains(slot) || weights_.contains(slot) != are_weights) continue;
        body.inputs.push_back(slot);
        group.arguments.push_back({.kind = Argument::Kind::value, .slots = {slot}});
        group.activations += static_cast<size_t>(!are_weights);
      }
    std::string names;
    for (const Slot slot : made)
      if (slot != kNoSlot && flow_.read_until(slot) > end) {
        group.outputs.push_back(slot);
        names += (names.empty() ? "" : ", ") + from_.values[static_cast<size_t>(slot)].name;
      }
    require(group.outputs.size() == 1 && from_.values[static_cast<size_t>(group.outputs[0])].tensor.has_value(), [&] {
      return "recompute: expected a module that gives one tensor, and " + module + " gives " +
             (names.empty() ? "none" : names);
    });
    body.outputs.push_back({.kind = Argument::Kind::value, .slots = group.outputs});
    find_last_uses(body);
    group.body = std::make_shared<const Graph>(std::move(body));
    graph_.nodes.push_back(std::move(group));
  }

  const Graph& from_;
  const std::set<Slot>& weights_;
  const Dataflow flow_;
  Graph graph_;
};

}  // namespace

std::string module_named(const Node& node, const std::vector<std::string>& patterns) {
  for (size_t end = 0; end != node.module.npos && !node.module.empty();) {
    end = node.module.find('.', end + 1);
    const std::string module = node.module.substr(0, end);
    if (std::ranges::any_of(patterns, [&](const auto& one) { return parallel::pattern_names(one, module); }))
      return module;
  }
  return "";
}

std::vector<std::string> repeated_modules(const Program& net) {
  std::map<std::string, std::set<std::string>> numbers;  // by the lists' names
  for (const Node& node : net.graph().graph.nodes) {
    std::string list;
    for (const std::string_view part : parts_of(node.module, '.')) {
      if (!part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; })) {
        numbers[list].emplace(part);
        break;
      }
      list += std::string(part) + ".";
    }
  }
  std::vector<std::string> patterns;
  for (const auto& [list, found] : numbers)
    if (found.size() > 1) patterns.push_back(list + "*");
  return patterns;
}

Graph with_recomputed(const Graph& graph, const std::set<Slot>& weights, const std::vector<std::string>& patterns,
                      bool all) {
  for (const std::string& pattern : patterns)
    require(
        !all ||
            std::ranges::any_of(graph.nodes, [&](const Node& node) { return !module_named(node, {pattern}).empty(); }),
        [&] { return "recompute: expected patterns that name modules, got \"" + pattern + "\", which names none"; });
  return Grouping(graph, weights).grouped(patterns, all);
}

}  // namespace adjoin::program
