#include "tests/support/gradient_programs.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>

#include "adjoin/movement/mappings.hpp"
#include "adjoin/movement/move.hpp"

namespace adjoin::testing {
namespace {

using Instruction = GradientProgram::Instruction;
using What = Instruction::What;

constexpr int64_t kRows = 12, kFeatures = 3;

const std::vector<std::function<at::Tensor(const at::Tensor&)>>& unary() {
  static const std::vector<std::function<at::Tensor(const at::Tensor&)>> operations = {
      [](const at::Tensor& x) { return x.tanh(); },
      [](const at::Tensor& x) { return x * 0.5 + 0.1; },
      [](const at::Tensor& x) { return x.flip(0).softmax(0); },
      [](const at::Tensor& x) {
        at::Tensor y = (x * 1.5).clone();
        y.narrow(0, 0, 1).mul_(0.5);
        return y;
      },
      [](const at::Tensor& x) {
        return at::cat({x.narrow(0, 1, x.size(0) - 1), x.narrow(0, 0, 1)}) - 0.2 * x.detach();
      },
      [](const at::Tensor& x) { return at::layer_norm(x, {kFeatures}); },
      [](const at::Tensor& x) { return x.index_select(0, at::arange(x.size(0)).flip(0)).sin(); },
      [](const at::Tensor& x) { return x.dim() ? (x * x).sum() : x; },  // the one for losses
  };
  return operations;
}
constexpr size_t kUnary = 7, kSum = 7;

/// With rows of one operand in place of the other's where these are others.
at::Tensor binary(size_t which, const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor c = a.dim() && b.dim() && a.size(0) != b.size(0) ? b.mean(0, /*keepdim=*/true) : b;
  if (which == 0) return a + c;
  if (which == 1) return a * c;
  if (which == 2) return at::where(a > 0, a, c.sin().expand_as(a));
  return a.mm(b.narrow(0, 0, kFeatures).tanh());
}

bool go_together(Kind a, Kind b) {
  return (a == Kind::replicated) == (b == Kind::replicated);
}
Kind result_of(Kind a, Kind b) {
  return a == b ? a : Kind::split;
}

class Generator {
 public:
  Generator(uint64_t seed, const std::vector<int>& sizes) : random_(seed), program_{GridShape::positional(sizes), {}} {}

  GradientProgram make() {
    for (int64_t i = 3 + below(3); i > 0; --i) parameter(random_kinds());
    for (int64_t i = 8 + below(8); i > 0; --i) {
      const int64_t choice = below(10);
      if (choice < 4)
        movement();
      else if (choice < 8)
        binary(pick());
      else
        unary(pick(), static_cast<size_t>(below(kUnary)));
    }
    end();
    return std::move(program_);
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  size_t axes() const { return program_.grid.axes().size(); }
  const Instruction& at(size_t value) const { return program_.code[value]; }
  size_t add(Instruction instruction) {
    program_.code.push_back(std::move(instruction));
    used_.push_back(false);
    return used_.size() - 1;
  }
  /// One of the values, the later ones rather.
  size_t pick() { return static_cast<size_t>(std::max(below(std::ssize(used_)), below(std::ssize(used_)))); }

  std::vector<Kind> random_kinds() {
    std::vector<Kind> kinds;
    for (size_t axis = 0; axis < axes(); ++axis)
      kinds.push_back(
          std::array{Kind::replicated, Kind::replicated, Kind::copied, Kind::split}[static_cast<size_t>(below(4))]);
    return kinds;
  }
  size_t parameter(std::vector<Kind> kinds, int64_t rows = kRows) {
    return add({.what = What::parameter, .kinds = std::move(kinds), .rows = rows});
  }
  size_t unary(size_t a, size_t which) {
    used_[a] = true;
    return add(
        {.what = What::unary, .which = which, .a = a, .kinds = at(a).kinds, .rows = which == kSum ? 0 : at(a).rows});
  }
  size_t binary(size_t a, std::optional<size_t> with = {}, size_t which = 4) {
    const auto fits = [&](size_t b) {
      for (size_t axis = 0; axis < axes(); ++axis)
        if (!go_together(at(a).kinds[axis], at(b).kinds[axis])) return false;
      return b != a && at(b).rows >= kFeatures;
    };
    std::vector<size_t> others;
    for (size_t b = 0; b < used_.size(); ++b)
      if (fits(b)) others.push_back(b);
    if (!with && others.empty()) with = parameter(at(a).kinds);
    const size_t b = with ? *with : others[static_cast<size_t>(below(std::ssize(others)))];
    if (which == 4) which = static_cast<size_t>(below(4));
    used_[a] = used_[b] = true;
    Instruction made{.what = What::binary, .which = which, .a = a, .b = b, .rows = at(a).rows};
    for (size_t axis = 0; axis < axes(); ++axis) made.kinds.push_back(result_of(at(a).kinds[axis], at(b).kinds[axis]));
    return add(std::move(made));
  }
  void movement() {
    const size_t a = pick();
    std::vector<size_t> along{static_cast<size_t>(below(std::ssize(program_.grid.axes())))};
    if (below(6) == 0)
      for (size_t axis = along[0] + 1; axis < axes() && along.size() == 1; ++axis)
        if (at(a).kinds[axis] == at(a).kinds[along[0]]) along.push_back(axis);
    const Kind from = at(a).kinds[along[0]];
    if (from == Kind::copied) return;
    const std::vector<std::string> names =
        from == Kind::replicated ? std::vector<std::string>{"copy_to", "copy_to", "scatter_to"}
                                 : std::vector<std::string>{"reduce_from", "reduce_from", "all_sum_reduce",
                                                            "gather_from", "all_gather",  "reduce_scatter"};
    moved(a, names[static_cast<size_t>(below(std::ssize(names)))], along);
  }
  size_t moved(size_t a, const std::string& movement, const std::vector<size_t>& along) {
    int64_t parts = 1, rows = at(a).rows;
    for (const size_t axis : along) parts *= program_.grid.axes()[axis].size;
    const bool cuts = movement == "scatter_to" || movement == "reduce_scatter";
    if (cuts && rows % parts != 0) return a;
    if (cuts) rows /= parts;
    if (movement == "gather_from" || movement == "all_gather") rows *= parts;
    if (rows > 2 * kRows || (rows > 0 && rows < kFeatures)) return a;
    used_[a] = true;
    Instruction made{.what = What::movement,
                     .a = a,
                     .movement = movement,
                     .as_move = below(5) == 0,
                     .axes = along,
                     .kinds = at(a).kinds,
                     .rows = rows};
    for (const size_t axis : along)
      made.kinds[axis] = movement == "copy_to" || movement == "all_sum_reduce" || movement == "all_gather"
                             ? Kind::copied
                         : cuts ? Kind::split
                                : Kind::replicated;
    return add(std::move(made));
  }
  /// All that nobody used yet, as one number: along each axis the same on all ranks, or a summand of each.
  void end() {
    std::vector<Kind> wanted;
    for (size_t axis = 0; axis < axes(); ++axis) wanted.push_back(below(2) ? Kind::replicated : Kind::split);
    std::optional<size_t> loss;
    const size_t values = used_.size();
    for (size_t value = 0; value < values; ++value) {
      if (used_[value]) continue;
      size_t term = unary(value, kSum);
      for (size_t axis = 0; axis < axes(); ++axis) {
        if (at(term).kinds[axis] == Kind::replicated && wanted[axis] == Kind::split)
          term = moved(term, "copy_to", {axis});
        if (at(term).kinds[axis] == Kind::copied) {
          std::vector<Kind> kinds = at(term).kinds;
          kinds[axis] = Kind::split;
          term = binary(term, parameter(kinds, 0), /*which=*/1);
        }
        if (at(term).kinds[axis] == Kind::split && wanted[axis] == Kind::replicated)
          term = moved(term, "reduce_from", {axis});
      }
      loss = loss ? binary(*loss, term, /*which=*/0) : term;
    }
  }

  std::mt19937_64 random_;
  GradientProgram program_;
  std::vector<bool> used_;
};

/// The coordinates of a cell on the axes along which a parameter has a value of its own, else 0.
std::vector<int> place_of(const GradientProgram& program, const Instruction& parameter, int cell) {
  std::vector<int> place = program.grid.coordinates(cell);
  for (size_t axis = 0; axis < place.size(); ++axis)
    if (parameter.kinds[axis] != Kind::split) place[axis] = 0;
  return place;
}

at::Tensor values_of(size_t number, const Instruction& parameter, const std::vector<int>& place) {
  double seed = 1 + static_cast<double>(number);
  for (const int coordinate : place) seed = seed * 3.7 + coordinate;
  const std::vector<int64_t> shape =
      parameter.rows ? std::vector<int64_t>{parameter.rows, kFeatures} : std::vector<int64_t>{};
  const int64_t count = parameter.rows ? parameter.rows * kFeatures : 1;
  return (at::arange(count, at::kDouble) * 1.3 + seed).sin().view(shape).clone().requires_grad_(true);
}

std::vector<std::string> names_of(const GradientProgram& program, const std::vector<size_t>& axes) {
  std::vector<std::string> names;
  for (const size_t axis : axes) names.push_back(program.grid.axes()[axis].name);
  return names;
}

at::Tensor by_layouts(const GradientProgram& program, const Instruction& code, const Instruction& of,
                      const at::Tensor& x, const Grid& grid) {
  const bool cuts_from = code.movement == "gather_from" || code.movement == "all_gather";
  const bool cuts_to = code.movement == "scatter_to" || code.movement == "reduce_scatter";
  std::vector<int64_t> shape = x.sizes().vec();
  if (cuts_from) shape[0] = code.rows;
  std::map<std::string, Kind> from, to;
  std::vector<Layout::Cut> cuts_of_from, cuts_of_to;
  const std::vector<std::string> along = names_of(program, code.axes);
  int parts = 1;
  for (const size_t axis : code.axes) parts *= program.grid.axes()[axis].size;
  for (size_t axis = 0; axis < code.kinds.size(); ++axis) {
    const std::string& name = program.grid.axes()[axis].name;
    const bool moves = std::ranges::find(code.axes, axis) != code.axes.end();
    // Along the others each worker has its own, which the layouts call partial, or copies.
    const auto said = [](Kind kind) { return kind == Kind::split ? Kind::partial : kind; };
    if (!(moves && cuts_from)) from[name] = said(of.kinds[axis]);
    if (!(moves && cuts_to)) to[name] = said(code.kinds[axis]);
  }
  if (cuts_from) cuts_of_from.push_back({Split::balanced(shape[0], parts, 0), along});
  if (cuts_to) cuts_of_to.push_back({Split::balanced(shape[0], parts, 0), along});
  return move(x, Layout(program.grid, shape, cuts_of_from, from), Layout(program.grid, shape, cuts_of_to, to), grid);
}

at::Tensor moved(const GradientProgram& program, const Instruction& code, const at::Tensor& x, const Grid& grid) {
  if (code.as_move) return by_layouts(program, code, program.code[code.a], x, grid);
  const Communicator& group = grid.group(names_of(program, code.axes));
  const auto split = [&](int64_t rows) { return Split::balanced(rows, group.size(), 0); };
  if (code.movement == "copy_to") return copy_to(x, group);
  if (code.movement == "reduce_from") return reduce_from(x, group);
  if (code.movement == "all_sum_reduce") return all_sum_reduce(x, group);
  if (code.movement == "gather_from") return gather_from(x, group, split(code.rows));
  if (code.movement == "all_gather") return all_gather(x, group, split(code.rows));
  if (code.movement == "scatter_to") return scatter_to(x, group, split(x.size(0)));
  return reduce_scatter(x, group, split(x.size(0)));
}

/// The same on one worker, which has the values of all cells.
at::Tensor moved_here(const GradientProgram& program, const Instruction& code, const std::vector<at::Tensor>& x,
                      int cell) {
  const std::vector<int> line = program.grid.ranks_along(cell, names_of(program, code.axes));
  const int64_t place = std::ranges::find(line, cell) - line.begin();
  std::vector<at::Tensor> along;
  for (const int other : line) along.push_back(x[static_cast<size_t>(other)]);
  const auto block = [&](const at::Tensor& whole) { return whole.narrow(0, place * code.rows, code.rows); };
  if (code.movement == "copy_to") return along[static_cast<size_t>(place)];
  if (code.movement == "scatter_to") return block(along[static_cast<size_t>(place)]);
  if (code.movement == "gather_from" || code.movement == "all_gather") return at::cat(along);
  const at::Tensor sum = at::stack(along).sum(0);
  return code.movement == "reduce_scatter" ? block(sum) : sum;
}

at::Tensor computed(const Instruction& code, const std::function<at::Tensor(size_t)>& value) {
  return code.what == What::unary ? unary()[code.which](value(code.a))
                                  : binary(code.which, value(code.a), value(code.b));
}

}  // namespace

GradientProgram random_program(uint64_t seed, const std::vector<int>& sizes) {
  return Generator(seed, sizes).make();
}

/// Where a value lies, as far as layouts say it: what is another on each worker is called partial, whether summand or piece.
Layout layout_of(const GradientProgram& program, const Instruction& code) {
  std::map<std::string, Kind> kinds;
  for (size_t axis = 0; axis < code.kinds.size(); ++axis)
    kinds[program.grid.axes()[axis].name] = code.kinds[axis] == Kind::split ? Kind::partial : code.kinds[axis];
  return {program.grid, code.rows ? std::vector<int64_t>{code.rows, kFeatures} : std::vector<int64_t>{}, {}, kinds};
}

RunProgram run(const GradientProgram& program, const Grid& grid) {
  RunProgram ran;
  std::vector<at::Tensor> values;
  for (const Instruction& code : program.code) {
    const std::string number = std::to_string(values.size());
    std::map<std::string, Kind> kinds;
    for (size_t axis = 0; axis < code.kinds.size(); ++axis) kinds[program.grid.axes()[axis].name] = code.kinds[axis];
    if (code.what == What::parameter) {
      values.push_back(values_of(values.size(), code, place_of(program, code, grid.cell())));
      ran.parameters.push_back(values.back());
      ran.known.push_back({"parameter " + number, values.back(), kinds});
      continue;
    }
    values.push_back(code.what == What::movement ? moved(program, code, values[code.a], grid)
                                                 : computed(code, [&](size_t i) { return values[i]; }));
    ran.values.push_back({"value " + number, values.back(), layout_of(program, code), grid.world()});
    ran.loss_kinds = kinds;  // the last one's
  }
  ran.loss = values.back();
  return ran;
}

std::vector<at::Tensor> summed_gradients(const GradientProgram& program, const RunProgram& ran, const Grid& grid) {
  std::vector<at::Tensor> gradients;
  for (const Instruction& code : program.code) {
    if (code.what != What::parameter) continue;
    const at::Tensor& parameter = ran.parameters[gradients.size()];
    const at::Tensor gradient = parameter.grad().defined() ? parameter.grad().contiguous() : at::zeros_like(parameter);
    std::vector<std::string> copied;
    for (size_t axis = 0; axis < code.kinds.size(); ++axis)
      if (code.kinds[axis] == Kind::copied) copied.push_back(program.grid.axes()[axis].name);
    gradients.push_back(copied.empty() ? gradient : sum(gradient.detach(), grid.group(copied)));
  }
  return gradients;
}

std::vector<std::vector<at::Tensor>> gradients_of_one_worker(const GradientProgram& program) {
  const auto cells = static_cast<size_t>(program.grid.cells());
  std::vector<std::vector<at::Tensor>> values, parameters(cells), gradients(cells);
  for (const Instruction& code : program.code) {
    std::vector<at::Tensor> of_cells(cells);
    std::map<std::vector<int>, at::Tensor> at_place;
    for (size_t cell = 0; cell < cells; ++cell) {
      if (code.what == What::parameter) {
        const std::vector<int> place = place_of(program, code, static_cast<int>(cell));
        if (!at_place.contains(place)) at_place[place] = values_of(values.size(), code, place);
        of_cells[cell] = at_place[place];
        parameters[cell].push_back(of_cells[cell]);
      } else if (code.what == What::movement) {
        of_cells[cell] = moved_here(program, code, values[code.a], static_cast<int>(cell));
      } else {
        of_cells[cell] = computed(code, [&](size_t i) { return values[i][cell]; });
      }
    }
    values.push_back(std::move(of_cells));
  }
  at::Tensor loss = at::zeros({}, at::kDouble);
  for (size_t cell = 0; cell < cells; ++cell) {  // what is replicated counts once
    const std::vector<int> place = program.grid.coordinates(static_cast<int>(cell));
    bool counts = true;
    for (size_t axis = 0; axis < place.size(); ++axis)
      counts &= place[axis] == 0 || program.code.back().kinds[axis] != Kind::replicated;
    if (counts) loss = loss + values.back()[cell];
  }
  loss.backward();
  for (size_t cell = 0; cell < cells; ++cell)
    for (const at::Tensor& parameter : parameters[cell])
      gradients[cell].push_back(parameter.grad().defined() ? parameter.grad() : at::zeros_like(parameter));
  return gradients;
}

}  // namespace adjoin::testing
