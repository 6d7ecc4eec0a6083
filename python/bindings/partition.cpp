#include <pybind11/operators.h>

#include "adjoin/base/error.hpp"
#include "adjoin/partition/grid.hpp"
#include "adjoin/partition/halo_plan.hpp"
#include "adjoin/partition/layout.hpp"
#include "adjoin/partition/move_plan.hpp"
#include "adjoin/partition/split.hpp"
#include "adjoin/partition/token_rows.hpp"
#include "adjoin/partition/window.hpp"
#include "python/bindings/bindings.hpp"

namespace adjoin::python {
namespace {

using Pair = std::pair<int64_t, int64_t>;
using Ints = std::vector<int64_t>;

std::vector<Range> ranges_of(const std::vector<Pair>& pairs) {
  std::vector<Range> ranges;
  for (const auto& [begin, end] : pairs) ranges.push_back({begin, end});
  return ranges;
}

template <class Ranges>
std::vector<Pair> pairs_of(const Ranges& ranges) {
  std::vector<Pair> pairs;
  for (const Range& range : ranges) pairs.emplace_back(range.begin, range.end);
  return pairs;
}

std::vector<std::vector<Range>> parts_of(const std::vector<std::vector<Pair>>& parts) {
  std::vector<std::vector<Range>> ranges;
  for (const auto& part : parts) ranges.push_back(ranges_of(part));
  return ranges;
}

int checked_part(const Split& split, int part) {
  require(part >= 0 && part < split.parts(), [&] {
    return "Split: expected a part from 0 to " + std::to_string(split.parts() - 1) + ", got " + std::to_string(part);
  });
  return part;
}

int checked_cell(const GridShape& shape, int cell) {
  require(cell >= 0 && cell < shape.cells(), [&] {
    return "expected a cell from 0 to " + std::to_string(shape.cells() - 1) + ", got " + std::to_string(cell);
  });
  return cell;
}

int64_t checked_dim(int64_t dim, size_t dims) {
  require(dim >= 0 && dim < static_cast<int64_t>(dims), [&] {
    return "Layout: expected a dim from 0 to " + std::to_string(static_cast<int64_t>(dims) - 1) + ", got " +
           std::to_string(dim);
  });
  return dim;
}

Axes names_of(const py::handle& axes) {
  return py::isinstance<py::str>(axes) ? Axes{axes.cast<std::string>()} : axes.cast<Axes>();
}

/// {dim: axes}, balanced, {dim: (Split, axes)}, or a list of (Split, axes).
std::vector<Layout::Cut> cuts_of(const py::object& given, const GridShape& grid, const Ints& shape) {
  std::vector<Layout::Cut> cuts;
  const auto is_cut = [](const py::handle& cut) {
    return py::isinstance<py::tuple>(cut) && py::len(cut) == 2 && py::isinstance<Split>(py::cast<py::tuple>(cut)[0]);
  };
  const auto cut_of = [](const py::handle& cut) {
    const auto pair = cut.cast<py::tuple>();
    return Layout::Cut{pair[0].cast<Split>(), names_of(pair[1])};
  };
  if (!py::isinstance<py::dict>(given)) {
    for (const py::handle cut : given) {
      require(is_cut(cut), "Layout: expected cuts as {dim: axes} or a list of (Split, axes)");
      cuts.push_back(cut_of(cut));
    }
    return cuts;
  }
  for (const auto& [key, value] : given.cast<py::dict>()) {
    const int64_t dim = checked_dim(key.cast<int64_t>(), shape.size());
    if (is_cut(value)) {
      cuts.push_back(cut_of(value));
      cuts.back().split = cuts.back().split.along(dim);
      continue;
    }
    Axes axes = names_of(value);
    if (axes.empty()) continue;
    int parts = 1;
    for (const std::string& axis : axes) parts *= grid.axis_size(axis);
    cuts.push_back({Split::balanced(shape[static_cast<size_t>(dim)], parts, dim), std::move(axes)});
  }
  return cuts;
}

std::map<std::string, Kind> kinds_of(const std::map<std::string, std::string>& names) {
  std::map<std::string, Kind> kinds;
  for (const auto& [axis, kind] : names) kinds.emplace(axis, kind_named(kind));
  return kinds;
}

std::vector<std::pair<Split, Axes>> cut_dims(const Layout& layout) {
  std::vector<std::pair<Split, Axes>> cuts;
  for (const auto& [split, axes] : layout.cuts())
    if (!axes.empty()) cuts.emplace_back(split, axes);
  return cuts;
}

void bind_split(py::module_& m) {
  using namespace py::literals;
  py::class_<Split>(m, "Split",
                    "How one dim of a tensor is cut: parts are lists of ranges of indices, and may be empty.")
      .def_static("balanced", &Split::balanced, "size"_a, "parts"_a, "dim"_a = 0, "unit"_a = 1,
                  "Contiguous parts whose sizes differ by at most one unit, the larger first. Raises InvalidArgument "
                  "for no parts.")
      .def_static("at", &Split::at, "starts"_a, "size"_a, "dim"_a = 0, "Contiguous parts that begin at starts.")
      .def_static(
          "of_ranges",
          [](const std::vector<std::vector<Pair>>& parts, int64_t size, int64_t dim) {
            return Split::of_ranges(parts_of(parts), size, dim);
          },
          "parts"_a, "size"_a, "dim"_a = 0, "Parts of ranges (begin, end) that cover [0, size) exactly once.")
      .def_static(
          "covering",
          [](const std::vector<std::vector<Pair>>& parts, int64_t size, int64_t dim) {
            return Split::covering(parts_of(parts), size, dim);
          },
          "parts"_a, "size"_a, "dim"_a = 0,
          "Parts of any ranges within [0, size): what a tensor is moved to, not how one is owned.")
      .def_property_readonly("dim", &Split::dim)
      .def_property_readonly("parts", &Split::parts)
      .def_property_readonly("size", [](const Split& s) { return s.size(); })
      .def_property_readonly("sizes", &Split::sizes)
      .def_property_readonly("is_exact", &Split::is_exact)
      .def_property_readonly("in_order", &Split::in_order)
      .def(
          "size_of", [](const Split& s, int part) { return s.size(checked_part(s, part)); }, "part"_a)
      .def(
          "offset", [](const Split& s, int part) { return s.offset(checked_part(s, part)); }, "part"_a)
      .def(
          "ranges", [](const Split& s, int part) { return pairs_of(s.ranges(checked_part(s, part))); }, "part"_a)
      .def("along", &Split::along, "dim"_a)
      .def(py::self == py::self)
      .def("__repr__", &Split::to_string);
}

void bind_grid(py::module_& m) {
  using namespace py::literals;
  py::class_<GridShape>(
      m, "GridShape",
      "The arithmetic of a Cartesian arrangement of ranks with named axes, the last one fastest: {\"dp\": 2, \"tp\": "
      "4}.\nranks: the rank of the world at each cell; cell c is rank c unless given")
      .def(py::init([](const py::object& axes, std::vector<int> ranks) {
             return GridShape(axes_of(axes), std::move(ranks));
           }),
           "axes"_a, "ranks"_a = std::vector<int>())
      .def_static("positional", &GridShape::positional, "sizes"_a, "ranks"_a = std::vector<int>())
      .def_static("united", &GridShape::united, "a"_a, "b"_a)
      .def("at", &GridShape::at, "axis"_a, "coordinate"_a)
      .def("among", &GridShape::among, "axis"_a, "coordinates"_a)
      .def_property_readonly("cells", &GridShape::cells)
      .def_property_readonly("axes",
                             [](const GridShape& g) {
                               std::vector<std::pair<std::string, int>> axes;
                               for (const auto& [name, size] : g.axes()) axes.emplace_back(name, size);
                               return axes;
                             })
      .def_property_readonly("ranks", &GridShape::ranks)
      .def("axis_size", &GridShape::axis_size, "axis"_a)
      .def(
          "rank_of", [](const GridShape& g, int cell) { return g.rank_of(checked_cell(g, cell)); }, "cell"_a)
      .def("cell_of", &GridShape::cell_of, "rank"_a)
      .def(
          "coordinates", [](const GridShape& g, int cell) { return g.coordinates(checked_cell(g, cell)); }, "cell"_a)
      .def(
          "cell_at",
          [](const GridShape& g, const std::vector<int>& at) {
            bool fits = at.size() == g.axes().size();
            for (size_t i = 0; fits && i < at.size(); ++i) fits = at[i] >= 0 && at[i] < g.axes()[i].size;
            require(fits, [&] { return "cell_at: the coordinates do not fit " + g.to_string(); });
            return g.cell_at(at);
          },
          "coordinates"_a)
      .def("ranks_along", &GridShape::ranks_along, "rank"_a, "axes"_a)
      .def(py::self == py::self)
      .def("__repr__", &GridShape::to_string);

  py::class_<Grid, Owner<Grid>>(m, "Grid",
                                "One rank's view of a grid: its coordinates, and a Communicator for each axis. Made by "
                                "all ranks of the world together.\nRaises InvalidArgument where the world has too few "
                                "ranks, or for what a rank outside of the grid has not.")
      .def(py::init([](const Communicator& world, const py::object& axes) {
             GridShape shape = py::isinstance<GridShape>(axes) ? axes.cast<GridShape>() : GridShape(axes_of(axes));
             const Blocking blocking;
             return Grid(world, std::move(shape));
           }),
           "world"_a, "axes"_a)
      .def_property_readonly("shape", &Grid::shape, py::return_value_policy::copy)
      .def_property_readonly("world", &Grid::world, py::return_value_policy::copy)
      .def_property_readonly("has_me", &Grid::has_me)
      .def_property_readonly("cell", &Grid::cell)
      .def("coordinate", &Grid::coordinate, "axis"_a)
      .def(
          "axis", [](const Grid& g, const std::string& axis) { return Communicator(g.axis(axis)); }, "axis"_a,
          MayBlock())
      .def(
          "group", [](const Grid& g, const Axes& axes) { return Communicator(g.group(axes)); }, "axes"_a, MayBlock())
      .def(
          "group_of", [](const Grid& g, const std::vector<int>& ranks) { return Communicator(g.group_of(ranks)); },
          "ranks"_a, MayBlock())
      .def("at", &Grid::at, "axis"_a, "coordinate"_a, MayBlock())
      .def("__repr__", [](const Grid& g) { return "Grid(" + g.shape().to_string() + ")"; });
}

void bind_layout(py::module_& m) {
  using namespace py::literals;
  py::class_<Layout>(m, "Layout",
                     "Where the elements of a global tensor lie on a grid.\ncuts: {dim: axes} in balanced parts, {dim: "
                     "(Split, axes)}, or a list of (Split, axes)\nkinds: along axes that cut nothing: replicated "
                     "(unless given), copied or partial\nRaises InvalidArgument where a cut does not fit.")
      .def(py::init([](const py::object& grid, const Ints& shape, const py::object& cuts,
                       const std::map<std::string, std::string>& kinds) {
             const GridShape on = shape_of(grid);
             return Layout(on, shape, cuts_of(cuts, on, shape), kinds_of(kinds));
           }),
           "grid"_a, "shape"_a, "cuts"_a = py::dict(), "kinds"_a = py::dict())
      .def_property_readonly("grid", &Layout::grid, py::return_value_policy::copy)
      .def_property_readonly("shape", &Layout::shape)
      .def_property_readonly("dims", &Layout::dims)
      .def_property_readonly("cuts", &cut_dims)
      .def_property_readonly("kinds",
                             [](const Layout& l) {
                               std::map<std::string, std::string> kinds;
                               for (const auto& [axis, kind] : l.kinds()) kinds.emplace(axis, name(kind));
                               return kinds;
                             })
      .def(
          "split", [](const Layout& l, int64_t dim) { return Split(l.split(checked_dim(dim, l.shape().size()))); },
          "dim"_a)
      .def(
          "kind", [](const Layout& l, const std::string& axis) { return std::string(name(l.kind(axis))); }, "axis"_a)
      .def(
          "axes", [](const Layout& l, const std::string& kind) { return l.axes(kind_named(kind)); }, "kind"_a)
      .def_property_readonly("is_exact", &Layout::is_exact)
      .def("dual", &Layout::dual, "The layout of the gradient: copied and partial swap.")
      .def(
          "with_kind",
          [](const Layout& l, const std::string& axis, const std::string& kind) {
            return l.with_kind(axis, kind_named(kind));
          },
          "axis"_a, "kind"_a)
      .def(
          "with_cut",
          [](const Layout& l, const Split& split, const py::object& axes) {
            return l.with_cut({split, names_of(axes)});
          },
          "split"_a, "axes"_a)
      .def(
          "parts_of", [](const Layout& l, int cell) { return l.parts_of(checked_cell(l.grid(), cell)); }, "cell"_a)
      .def(
          "shape_of", [](const Layout& l, int cell) { return l.shape_of(checked_cell(l.grid(), cell)); }, "cell"_a)
      .def("shape_on", &Layout::shape_on, "rank"_a,
           "The shape of what a rank of the world holds: [0] outside of the grid.")
      .def(
          "ranges_of",
          [](const Layout& l, int cell) {
            std::vector<std::vector<Pair>> ranges;
            for (const auto& dim : l.ranges_of(checked_cell(l.grid(), cell))) ranges.push_back(pairs_of(dim));
            return ranges;
          },
          "cell"_a)
      .def(py::self == py::self)
      .def("__repr__", &Layout::to_string);

  py::class_<Piece>(m, "Box", "A box of this rank's piece that comes from a rank or goes to one.")
      .def_readonly("peer", &Piece::peer)
      .def_readonly("offset", &Piece::offset)
      .def_readonly("sizes", &Piece::sizes)
      .def_readonly("summand", &Piece::summand);
  py::class_<MovePlan>(m, "MovePlan", "What one rank sends and receives when a tensor moves.")
      .def_readonly("sends", &MovePlan::sends)
      .def_readonly("receives", &MovePlan::receives)
      .def_readonly("summands", &MovePlan::summands)
      .def_readonly("sums", &MovePlan::sums);
  m.def("plan_move", &plan_move, "source"_a, "target"_a, "rank"_a,
        "What a rank of the world sends and receives when a tensor moves, found without talking.");
}

void bind_window(py::module_& m) {
  using namespace py::literals;
  py::class_<Window>(m, "Window",
                     "Which inputs along a dim each output reads: the windows of a convolution or a pooling.")
      .def(py::init([](int64_t kernel, int64_t stride, int64_t dilation, int64_t before, int64_t after, bool ceil_mode,
                       bool transposed, int64_t output_padding) {
             return Window{kernel, stride, dilation, before, after, ceil_mode, transposed, output_padding};
           }),
           "kernel"_a = 1, "stride"_a = 1, "dilation"_a = 1, "before"_a = 0, "after"_a = 0, "ceil_mode"_a = false,
           "transposed"_a = false, "output_padding"_a = 0)
      .def_readonly("kernel", &Window::kernel)
      .def_readonly("stride", &Window::stride)
      .def_readonly("dilation", &Window::dilation)
      .def_readonly("before", &Window::before)
      .def_readonly("after", &Window::after)
      .def_readonly("ceil_mode", &Window::ceil_mode)
      .def_readonly("transposed", &Window::transposed)
      .def_readonly("output_padding", &Window::output_padding);
  m.def("outputs_of", &outputs_of, "window"_a, "inputs"_a, "How many outputs a dim of so many inputs has.");
  m.def(
      "inputs_of",
      [](const Window& window, int64_t inputs, const Pair& outputs) {
        const Range range = inputs_of(window, inputs, {outputs.first, outputs.second});
        return Pair(range.begin, range.end);
      },
      "window"_a, "inputs"_a, "outputs"_a, "The inputs that a range of outputs reads; beyond the ends is padding.");
  py::class_<HaloPlan>(m, "HaloPlan", "Where the outputs of windows lie, and what is fetched for them.")
      .def_readonly("outputs", &HaloPlan::outputs)
      .def_readonly("fetched", &HaloPlan::fetched);
  m.def(
      "plan_halo",
      [](const Layout& layout, const std::vector<Window>& windows, const std::string& padding) {
        return plan_halo(layout, windows, padding_named(padding));
      },
      "layout"_a, "windows"_a, "padding"_a = "zeros",
      "Where the outputs of windows lie, and what each rank fetches for them.");

  py::class_<TokenRows>(m, "TokenRows", "Which sample and token each row of activations is, on every rank of a group.")
      .def_static("balanced", &TokenRows::balanced, "lengths"_a, "workers"_a)
      .def_static("zigzag", &TokenRows::zigzag, "lengths"_a, "workers"_a)
      .def_static(
          "of_runs",
          [](const std::vector<std::vector<std::tuple<int64_t, int64_t, int64_t>>>& runs, const Ints& lengths) {
            std::vector<std::vector<Run>> given;
            for (const auto& worker : runs) {
              given.emplace_back();
              for (const auto& [sample, begin, end] : worker) given.back().push_back({sample, {begin, end}});
            }
            return TokenRows::of_runs(std::move(given), lengths);
          },
          "runs"_a, "lengths"_a)
      .def_property_readonly("workers", &TokenRows::workers)
      .def_property_readonly("lengths", &TokenRows::lengths)
      .def_property_readonly("size", [](const TokenRows& r) { return r.size(); })
      .def(
          "size_of",
          [](const TokenRows& r, int worker) {
            require(worker >= 0 && worker < r.workers(), "TokenRows: there is no such worker");
            return r.size(worker);
          },
          "worker"_a)
      .def("split", &TokenRows::split)
      .def(py::self == py::self)
      .def("__repr__", &TokenRows::to_string);
}

}  // namespace

Kind kind_named(const std::string& text) {
  for (const Kind kind : {Kind::split, Kind::replicated, Kind::copied, Kind::partial})
    if (text == name(kind)) return kind;
  throw InvalidArgument("expected a kind: split, replicated, copied or partial, got '" + text + "'");
}

Padding padding_named(const std::string& text) {
  if (text == "zeros") return Padding::zeros;
  if (text == "replicate") return Padding::replicate;
  if (text == "reflect") return Padding::reflect;
  if (text == "circular") return Padding::circular;
  throw InvalidArgument("expected a padding: zeros, replicate, reflect or circular, got '" + text + "'");
}

std::vector<GridShape::Axis> axes_of(const py::object& axes) {
  std::vector<GridShape::Axis> found;
  const py::object items = py::isinstance<py::dict>(axes) ? axes.attr("items")() : axes;
  for (const py::handle item : items) {
    const auto [name, size] = item.cast<std::pair<std::string, int>>();
    found.push_back({name, size});
  }
  return found;
}

GridShape shape_of(const py::object& grid) {
  return py::isinstance<Grid>(grid) ? grid.cast<Grid>().shape() : grid.cast<GridShape>();
}

void bind_partition(py::module_& m) {
  bind_split(m);
  bind_grid(m);
  bind_layout(m);
  bind_window(m);
}

}  // namespace adjoin::python
