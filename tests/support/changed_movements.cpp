#include "tests/support/changed_movements.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>

#include "adjoin/comm/contract/call_site.hpp"
#include "adjoin/comm/launch.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/movement/move.hpp"

namespace adjoin::testing {
namespace {

constexpr double kTolerance = 1e-9;

/// What may stand in a movement's place: nothing, itself twice, or another.
struct Substitute {
  std::string name;
  ReplacedMovements::Replace applied;
};

/// What of `whole` lies where `owners`, the ranks from 1 on, is this rank.
at::Tensor own(const at::Tensor& whole, const at::Tensor& owners, const Communicator& group, const at::Tensor& like) {
  return whole.masked_select(owners == group.rank() + 1).view(like.sizes());
}

/// all_gather for gather_from, reduce_scatter for scatter_to, and the other way round, made of what the movement itself does.
LinearMap swapped_blocks(const std::string& other, const LinearMap& map, const at::Tensor& x) {
  const Communicator group = map.kinds->group;
  const auto mark = [&](const at::Tensor& block) { return at::full(block.sizes(), group.rank() + 1, block.options()); };
  MovedKinds kinds{.name = "swapped", .group = group};
  if (other == "all_gather") {
    kinds.to = Kind::copied;
    return {map.forward, [=](const at::Tensor& t) { return map.adjoint(sum(t, group)); }, kinds};
  }
  if (other == "reduce_scatter") {
    kinds.from = Kind::partial;
    return {[=](const at::Tensor& t) { return map.forward(sum(t, group)); }, map.adjoint, kinds};
  }
  if (other == "gather_from") {
    const at::Tensor like = x.detach(), owners = map.forward(mark(like));
    kinds.to = Kind::replicated;
    return {map.forward, [=](const at::Tensor& t) { return own(t, owners, group, like); }, kinds};
  }
  const at::Tensor like = map.forward(x.detach()), owners = map.adjoint(mark(like));  // scatter_to
  kinds.from = Kind::replicated;
  return {[=](const at::Tensor& t) { return own(t, owners, group, like); }, map.adjoint, kinds};
}

std::vector<Substitute> other_names(const std::string& movement) {
  using Make = std::function<at::Tensor(const at::Tensor&, const Communicator&)>;
  static const std::map<std::string, Make> reductions = {
      {"copy_to", [](const at::Tensor& x, const Communicator& group) { return copy_to(x, group); }},
      {"reduce_from", [](const at::Tensor& x, const Communicator& group) { return reduce_from(x, group); }},
      {"all_sum_reduce", [](const at::Tensor& x, const Communicator& group) { return all_sum_reduce(x, group); }}};
  static const std::map<std::string, std::string> blocks = {{"gather_from", "all_gather"},
                                                            {"all_gather", "gather_from"},
                                                            {"scatter_to", "reduce_scatter"},
                                                            {"reduce_scatter", "scatter_to"}};
  std::vector<Substitute> others;
  if (reductions.contains(movement))
    for (const auto& [name, make] : reductions)
      if (name != movement)
        others.push_back({name, [make = make](const LinearMap& map, const at::Tensor& x, const Communicator&) {
                            return make(x, map.kinds->group);
                          }});
  if (const auto other = blocks.find(movement); other != blocks.end())
    others.push_back({other->second, [name = other->second](const auto& map, const auto& x, const auto& workers) {
                        return apply(swapped_blocks(name, map, x), x, workers);
                      }});
  return others;
}

/// The same move between layouts of which one says another kind.
std::vector<Substitute> other_layouts(const std::pair<Layout, Layout>& layouts) {
  std::vector<Substitute> others;
  for (const bool is_to : {false, true}) {
    const Layout& layout = is_to ? layouts.second : layouts.first;
    for (const auto& [axis, kind] : layout.kinds())
      for (const Kind other : {Kind::replicated, Kind::copied, Kind::partial}) {
        if (other == kind || layout.grid().axis_size(axis) == 1) continue;
        others.push_back({std::string("one ") + (is_to ? "to " : "from ") + name(other) + " along " + axis,
                          [=](const LinearMap& map, const at::Tensor& x, const Communicator&) {
                            auto [from, to] = *map.kinds->layouts;
                            (is_to ? to : from) = (is_to ? to : from).with_kind(axis, other);
                            const Grid grid(map.kinds->group, GridShape::united(from.grid(), to.grid()));
                            return Move(from, to, grid)(x);
                          }});
      }
  }
  return others;
}

std::vector<Substitute> substitutes_of(const MovedKinds& kinds) {
  std::vector<Substitute> all = kinds.layouts ? other_layouts(*kinds.layouts) : other_names(kinds.name);
  all.push_back({"nothing", [](const LinearMap&, const at::Tensor& x, const Communicator&) { return x; }});
  all.push_back({"twice that", [](const LinearMap& map, const at::Tensor& x, const Communicator& workers) {
                   return apply(map, apply(map, x, workers), workers);
                 }});
  return all;
}

/// "reduce_from at model.cpp:12", "move of partial to copied at model.cpp:20".
std::string text_of(const MovedKinds& kinds) {
  std::string text = kinds.name;
  if (kinds.layouts) {
    const auto& [from, to] = *kinds.layouts;
    if (from.grid() != to.grid()) text += " between grids";
    for (const GridShape::Axis& axis : from.grid().axes())
      if (from.grid() == to.grid() && axis.size > 1 && from.kind(axis.name) != to.kind(axis.name))
        text += std::string(" of ") + name(from.kind(axis.name)) + " to " + name(to.kind(axis.name));
  }
  const auto& where = CallSite::current();
  if (!where) return text;
  return text + " at " + std::filesystem::path(where->file_name()).filename().string() + ":" +
         std::to_string(where->line());
}

struct NotedMovement {
  std::string text;
  std::vector<Substitute> substitutes;
};

/// A movement of a program's list, and which of its substitutes is in its place.
struct Changed {
  size_t movement, substitute;
};

struct Outcome {
  std::string error = {};  // of a program that did not run to its end
  std::vector<Gradients> of_ranks = {};

  bool runs() const { return error.empty(); }
  bool is_refused(size_t way) const {
    return error.find("gradients along") != std::string::npos ||
           std::ranges::any_of(
               of_ranks, [&](const Gradients& rank) { return way < rank.refused_by.size() && rank.refused_by[way]; });
  }
};

/// Notes the movements where there are none yet.
Outcome run(const GradientsOf& program, const Changes& changes, bool checks, std::vector<NotedMovement>& movements,
            const std::optional<Changed>& changed = {}) {
  Outcome outcome;
  outcome.of_ranks.resize(static_cast<size_t>(changes.ranks));
  const bool notes = movements.empty();
  try {
    launch_threads(changes.ranks, [&](const Communicator& world) {
      size_t calls = 0;
      const auto replace = [&](const LinearMap& map, const at::Tensor& x, const Communicator& workers) {
        if (!at::GradMode::is_enabled()) return apply(map, x, workers);  // an adjoint
        const size_t call = calls++;
        if (notes && world.rank() == 0) movements.push_back({text_of(*map.kinds), substitutes_of(*map.kinds)});
        if (!changed) return apply(map, x, workers);
        const bool is_it =
            changes.by_line ? text_of(*map.kinds) == movements[changed->movement].text : call == changed->movement;
        if (!is_it) return apply(map, x, workers);
        return movements[changed->movement].substitutes[changed->substitute].applied(map, x, workers);
      };
      outcome.of_ranks[static_cast<size_t>(world.rank())] = program(world, {replace, checks});
    });
  } catch (const std::exception& error) {
    outcome.error = error.what();
  }
  return outcome;
}

bool differ(const at::Tensor& a, const at::Tensor& b) {
  return !at::allclose(a, b, /*rtol=*/0, kTolerance);  // nor do two NaN equal each other
}

bool differ(const Outcome& a, const Outcome& b) {
  for (size_t rank = 0; rank < a.of_ranks.size(); ++rank)
    for (size_t i = 0; i < a.of_ranks[rank].of_parameters.size(); ++i)
      if (differ(a.of_ranks[rank].of_parameters[i], b.of_ranks[rank].of_parameters[i])) return true;
  return false;
}

bool have_another_loss(const Outcome& a, const Outcome& b) {
  return !std::ranges::equal(a.of_ranks, b.of_ranks,
                             [](const Gradients& x, const Gradients& y) { return !differ(x.loss, y.loss); });
}

}  // namespace

void try_changes(const std::string& name, const GradientsOf& program, const Changes& changes,
                 std::span<ChangesTried> tried) {
  std::vector<NotedMovement> movements;
  const Outcome right = run(program, changes, /*checks=*/true, movements);
  ASSERT_TRUE(right.runs()) << name << ": " << right.error;
  for (size_t way = 0; way < tried.size(); ++way) ASSERT_FALSE(right.is_refused(way)) << name;
  for (size_t i = 0; i < movements.size(); ++i) {
    const auto is_same = [&](const NotedMovement& other) { return other.text == movements[i].text; };
    if (changes.by_line && std::any_of(movements.begin(), movements.begin() + static_cast<std::ptrdiff_t>(i), is_same))
      continue;
    for (size_t substitute = 0; substitute < movements[i].substitutes.size(); ++substitute) {
      const Outcome checked = run(program, changes, /*checks=*/true, movements, Changed{i, substitute});
      // One that was refused before backward has its gradients without the check.
      const Outcome outcome = !checked.runs() && checked.is_refused(0)
                                  ? run(program, changes, /*checks=*/false, movements, Changed{i, substitute})
                                  : checked;
      const std::string what = movements[i].substitutes[substitute].name + " for " + movements[i].text;
      for (size_t way = 0; way < tried.size(); ++way)
        tried[way].add(name, what, outcome.runs() && differ(outcome, right), checked.is_refused(way), outcome.runs(),
                       outcome.runs() && have_another_loss(outcome, right));
    }
  }
}

void ChangesTried::add(const std::string& name, const std::string& what, bool is_wrong, bool is_refused, bool runs,
                       bool has_another_loss) {
  do_not_run += !runs;
  if (!runs) return;
  wrong += is_wrong;
  refused += is_wrong && is_refused;
  refused_with_right_gradients += !is_wrong && is_refused;
  of_these_with_another_loss += !is_wrong && is_refused && has_another_loss;
  if (is_wrong && !is_refused) ++missed[what];
  if (std::getenv("ADJOIN_TEST_VERBOSE"))
    std::cout << name << ", " << what << ": " << (is_wrong ? "wrong" : "right") << " gradients, "
              << (has_another_loss ? "another" : "the same") << " loss, " << (is_refused ? "refused" : "not refused")
              << std::endl;
}

void ChangesTried::report(const std::string& programs) const {
  for (const auto& [what, times] : missed) std::cout << "  missed " << times << ": " << what << "\n";
  std::cout << programs << ": " << wrong << " wrong gradients, " << refused << " refused; "
            << refused_with_right_gradients << " refused with right gradients, " << of_these_with_another_loss
            << " of these with another loss; " << do_not_run << " of shapes that do not fit\n";
}

}  // namespace adjoin::testing
