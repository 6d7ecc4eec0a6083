#include "adjoin/movement/move.hpp"

#include <map>
#include <optional>
#include <string>
#include <variant>

#include "adjoin/base/error.hpp"
#include "adjoin/movement/distributed_tensor.hpp"
#include "adjoin/movement/global_tensor.hpp"
#include "adjoin/movement/halo.hpp"
#include "adjoin/movement/linear_map.hpp"
#include "adjoin/movement/mappings.hpp"
#include "adjoin/movement/point_to_point.hpp"
#include "adjoin/movement/tensor_buffer.hpp"
#include "python/bindings/bindings.hpp"

namespace adjoin::python {
namespace {

using namespace py::literals;
using at::Tensor;
using Shape = std::vector<int64_t>;

void bind_prepared(py::module_& m) {
  py::class_<Move, Owner<Move>>(m, "Move",
                                "A move from one layout to another, prepared: as adjoin.move, used any number of "
                                "times.\nMade by all ranks of either layout in the same order.")
      .def(py::init<Layout, Layout, const Grid&>(), "source"_a, "target"_a, "grid"_a, MayBlock())
      .def(
          "__call__", [](const Move& move, const Tensor& x) { return move(plain("move", x)); }, "x"_a, MayBlock())
      .def_property_readonly("source", &Move::from, py::return_value_policy::copy)
      .def_property_readonly("target", &Move::to, py::return_value_policy::copy);
  py::class_<HaloExchange, Owner<HaloExchange>>(
      m, "HaloExchange", "A halo exchange, prepared: as adjoin.halo_exchange, used any number of times.")
      .def(py::init([](const Layout& layout, const std::vector<Window>& windows, const Grid& grid,
                       const std::string& padding) {
             const Blocking blocking;
             return Owner<HaloExchange>(new HaloExchange(layout, windows, padding_named(padding), grid));
           }),
           "layout"_a, "windows"_a, "grid"_a, "padding"_a = "zeros")
      .def(
          "__call__", [](const HaloExchange& exchange, const Tensor& x) { return exchange(plain("halo_exchange", x)); },
          "x"_a, MayBlock())
      .def_property_readonly("outputs", &HaloExchange::outputs, py::return_value_policy::copy);
}

void bind_between_layouts(py::module_& m) {
  m.def(
      "move",
      [](const Tensor& x, const Layout& source, const Layout& target, const Grid& grid) {
        return move(plain("move", x), source, target, grid);
      },
      "x"_a, "source"_a, "target"_a, "grid"_a, MayBlock(),
      "Moves a tensor from one layout to another, on the same ranks or others.\n"
      "Shape:   source.shape_on(rank) -> target.shape_on(rank); outside of a layout any tensor of no elements -> [0]\n"
      "Kinds:   split, replicated, partial -> split, replicated, copied\n"
      "Adjoint: the move from target.dual() to source.dual()\n"
      "Raises InvalidArgument for layouts between which nothing moves, and an x that is not shaped so.");
  m.def(
      "move", [](const DistributedTensor& x, const Layout& layout) { return move(x, layout); }, "x"_a, "layout"_a,
      MayBlock(), "The distributed tensor in another layout. Raises InvalidArgument as move.");
  m.def("move", [](const Tensor& x, const Layout&) -> Tensor { refuse_plain("move", py::cast(x)); });
  m.def(
      "broadcast",
      [](const Tensor& x, const Layout& source, const GridShape& target, const Grid& grid) {
        return broadcast(plain("broadcast", x), source, target, grid);
      },
      "x"_a, "source"_a, "target"_a, "grid"_a, MayBlock(),
      "Copies the pieces along the axes on which target has ranks and the layout one or none.\n"
      "Kinds:   a tensor of the layout -> copied along the new axes\n"
      "Adjoint: sum_reduce");
  m.def(
      "sum_reduce",
      [](const Tensor& x, const GridShape& source, const Layout& target, const Grid& grid) {
        return sum_reduce(plain("sum_reduce", x), source, target, grid);
      },
      "x"_a, "source"_a, "target"_a, "grid"_a, MayBlock(),
      "Sums the ranks' tensors along the axes on which source has ranks and the layout one or none.\n"
      "Kinds:   partial along the axes that go -> a tensor of the layout target\n"
      "Adjoint: broadcast");
  m.def(
      "halo_exchange",
      [](const Tensor& x, const Layout& layout, const std::vector<Window>& windows, const Grid& grid,
         const std::string& padding) {
        return halo_exchange(plain("halo_exchange", x), layout, windows, padding_named(padding), grid);
      },
      "x"_a, "layout"_a, "windows"_a, "grid"_a, "padding"_a = "zeros", MayBlock(),
      "Gives each rank the inputs that its windows read, padding included.\n"
      "Shape:   layout.shape_on(rank) -> in each dim what the windows of this rank's outputs span\n"
      "Adjoint: what others read is sent home and added\n"
      "Raises InvalidArgument for windows that do not fit.");
}

void bind_within_groups(py::module_& m) {
  m.def(
      "all_to_all",
      [](const Tensor& x, const Communicator& group, const Split& source, const Split& target) {
        return all_to_all(plain("all_to_all", x), group, source, target);
      },
      "x"_a, "group"_a, "source"_a, "target"_a, MayBlock(),
      "Cuts a tensor that is split over a group in another way.\n"
      "Shape:   of source -> of target\n"
      "Adjoint: all_to_all(target, source)");
  m.def(
      "all_to_all_rows",
      [](const Tensor& x, const Shape& send_rows, const Shape& receive_rows, const Communicator& group) {
        return all_to_all(plain("all_to_all_rows", x), send_rows, receive_rows, group);
      },
      "x"_a, "send_rows"_a, "receive_rows"_a, "group"_a, MayBlock(),
      "Row blocks to all ranks: rank r gets the r-th.\n"
      "Shape:   [sum of send_rows, *] -> [sum of receive_rows, *]\n"
      "Adjoint: itself with the counts swapped");
  m.def(
      "rotate",
      [](const Tensor& x, const Communicator& group, int by, const std::optional<Shape>& shape) {
        return rotate(plain("rotate", x), group, by, shape);
      },
      "x"_a, "group"_a, "by"_a, "shape"_a = py::none(), MayBlock(),
      "Sends x `by` ranks further round the group and receives that of the rank as far behind.\n"
      "Shape:   any -> shape, that of the x which comes; that of x itself unless given\n"
      "Adjoint: rotate by -by");
  m.def(
      "send", [](const Tensor& x, int to, const Communicator& group) { return send(plain("send", x), to, group); },
      "x"_a, "to"_a, "group"_a, MayBlock(),
      "Sends x to a rank of the group, which calls recv. Backward is begun from the result, which has no elements.\n"
      "Shape:   any -> [0]\n"
      "Adjoint: recv");
  m.def(
      "recv",
      [](const Tensor& nothing, const Shape& shape, int source, const Communicator& group) {
        return recv(plain("recv", nothing), shape, source, group);
      },
      "nothing"_a, "shape"_a, "source"_a, "group"_a, MayBlock(),
      "Receives what a rank of the group sends.\n"
      "nothing: a tensor of no elements, of the dtype that comes, which requires a gradient if the result shall\n"
      "Shape:   [0] -> shape\n"
      "Adjoint: send");
  m.def(
      "copy_to", [](const Tensor& x, const Communicator& group) { return copy_to(plain("copy_to", x), group); }, "x"_a,
      "group"_a, MayBlock(),
      "Lets each rank use x for its own part of the work (Megatron's f).\n"
      "Kinds:   replicated -> copied\n"
      "Adjoint: all-reduce");
  m.def(
      "reduce_from",
      [](const Tensor& x, const Communicator& group) { return reduce_from(plain("reduce_from", x), group); }, "x"_a,
      "group"_a, MayBlock(),
      "Sums x over the group (Megatron's g).\n"
      "Kinds:   partial -> replicated\n"
      "Adjoint: nothing moves");
  const auto def_with_split = [&](const char* name, const char* doc, auto movement) {
    m.def(
        name,
        [name, movement](const Tensor& x, const Communicator& group, const Split& split) {
          return movement(plain(name, x), group, split, Where());
        },
        "x"_a, "group"_a, "split"_a, MayBlock(), doc);
  };
  def_with_split("gather_from",
                 "Makes the whole of the ranks' blocks, for all to do the same with it.\nKinds:   split -> "
                 "replicated\nAdjoint: each takes its block",
                 gather_from);
  def_with_split(
      "scatter_to",
      "Leaves each rank its block of a tensor that all hold.\nKinds:   replicated -> split\nAdjoint: all-gather",
      scatter_to);
  def_with_split("all_gather",
                 "Makes the whole of the ranks' blocks, for each to use for its own part of the work.\nKinds:   split "
                 "-> copied\nAdjoint: reduce_scatter",
                 all_gather);
  def_with_split(
      "reduce_scatter",
      "Sums x over the group and leaves each rank its block.\nKinds:   partial -> split\nAdjoint: all_gather",
      reduce_scatter);
  m.def(
      "all_sum_reduce",
      [](const Tensor& x, const Communicator& group) { return all_sum_reduce(plain("all_sum_reduce", x), group); },
      "x"_a, "group"_a, MayBlock(),
      "Sums x over a group; each uses its copy for its own part of the work.\n"
      "Kinds:   partial -> copied\n"
      "Adjoint: itself");
  m.def(
      "all_sum_reduce",
      [](const Tensor& x, const Grid& grid, const Axes& axes) {
        return all_sum_reduce(plain("all_sum_reduce", x), grid, axes);
      },
      "x"_a, "grid"_a, "axes"_a, MayBlock(), "The same over the ranks along axes of a grid.");
}

void bind_distributed_tensor(py::module_& m) {
  py::class_<Step>(m, "Step",
                   "The step of a training that a tensor belongs to: of it, and the seed, follow the masks of dropout.")
      .def(py::init([](uint64_t seed, int64_t number, bool training, int64_t first_sample, double loss_share,
                       bool loss_share_is_per_token) {
             return Step{seed, number, training, first_sample, loss_share, loss_share_is_per_token};
           }),
           "seed"_a = 0, "number"_a = 0, "training"_a = false, "first_sample"_a = 0, "loss_share"_a = 0.0,
           "loss_share_is_per_token"_a = false)
      .def_readwrite("seed", &Step::seed)
      .def_readwrite("number", &Step::number)
      .def_readwrite("training", &Step::training)
      .def_readwrite("first_sample", &Step::first_sample)
      .def_readwrite("loss_share", &Step::loss_share)
      .def_readwrite("loss_share_is_per_token", &Step::loss_share_is_per_token);

  using Apply = std::function<Tensor(const Tensor&)>;
  using Dims = std::optional<std::variant<int64_t, Shape>>;
  const auto dims_of = [](const Dims& dims) {
    if (!dims) return Shape();
    return dims->index() == 0 ? Shape{std::get<0>(*dims)} : std::get<1>(*dims);
  };
  const auto summed = [dims_of](const DistributedTensor& x, const Dims& dim, bool keepdim) {
    return sum(x, dims_of(dim), keepdim);
  };
  const auto averaged = [dims_of](const DistributedTensor& x, const Dims& dim, bool keepdim) {
    return mean(x, dims_of(dim), keepdim);
  };
  const auto moved = [](const DistributedTensor& x, const Layout& layout) { return move(x, layout); };
  py::class_<DistributedTensor, Owner<DistributedTensor>> bound(
      m, "DistributedTensor",
      "A global tensor of which this rank holds a piece.\nShape:  local is layout.shape_on(rank)\nRaises "
      "InvalidArgument for a piece of another shape.");
  bound
      .def(py::init([](const Tensor& local, const Layout& layout, const Grid& grid, const std::optional<Step>& step) {
             const Shape expected = layout.shape_on(grid.world().rank());
             require(plain("DistributedTensor", local).sizes() == at::IntArrayRef(expected) ||
                         (local.numel() == 0 && !layout.grid().cell_of(grid.world().rank())),
                     [&] {
                       return "DistributedTensor: expected a piece of shape " + shape_text(expected) + ", got " +
                              shape_text(local.sizes().vec()) + "; the layout is " + layout.to_string();
                     });
             return DistributedTensor{local, layout, grid, step};
           }),
           "local"_a, "layout"_a, "grid"_a, "step"_a = py::none())
      .def_readonly("local", &DistributedTensor::local)
      .def_readonly("layout", &DistributedTensor::layout)
      .def_readonly("grid", &DistributedTensor::grid)
      .def_readwrite("step", &DistributedTensor::step)
      .def_property_readonly("shape", [](const DistributedTensor& x) { return x.layout.shape(); })
      .def("move", moved, "layout"_a, MayBlock())
      .def(
          "whole", [](const DistributedTensor& x) { return whole(x); }, MayBlock(),
          "The global tensor, on every rank of the grid. Raises InvalidArgument for a covering split.")
      .def(
          "map", [](const DistributedTensor& x, const Apply& f) { return map(x, f); }, "f"_a)
      .def("sum", summed, "dim"_a = py::none(), "keepdim"_a = false, MayBlock(),
           "The sum over some dims, or over all, whichever ranks hold them: replicated along the axes that cut them.")
      .def("mean", averaged, "dim"_a = py::none(), "keepdim"_a = false, MayBlock(), "The mean, likewise.")
      .def(
          "__add__", [](const DistributedTensor& a, const DistributedTensor& b) { return a + b; }, py::is_operator())
      .def(
          "__sub__", [](const DistributedTensor& a, const DistributedTensor& b) { return a - b; }, py::is_operator())
      .def(
          "__mul__", [](const DistributedTensor& a, const DistributedTensor& b) { return a * b; }, py::is_operator())
      .def("__neg__", [](const DistributedTensor& x) { return -x; })
      .def("__repr__", [](const DistributedTensor& x) { return "DistributedTensor(" + x.layout.to_string() + ")"; });
  for (const char* name : {"__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__"})
    bound.def(
        name,
        [name](const DistributedTensor&, const Tensor& x) -> DistributedTensor { refuse_plain(name, py::cast(x)); },
        py::is_operator());
  for (const char* name : {"__mul__", "__rmul__"}) {
    bound.def(
        name, [](const DistributedTensor& x, const py::int_& number) { return x * number.cast<int64_t>(); },
        py::is_operator());
    bound.def(
        name, [](const DistributedTensor& x, const py::float_& number) { return x * number.cast<double>(); },
        py::is_operator());
    bound.def(
        name, [](const DistributedTensor& x, c10::complex<double> number) { return x * number; }, py::is_operator());
  }
  m.def("sum", summed, "x"_a, "dim"_a = py::none(), "keepdim"_a = false, MayBlock(),
        "The sum over some dims, or over all, whichever ranks hold them: replicated along the axes that cut them.\n"
        "Raises InvalidArgument for dims that x does not have.");
  m.def("mean", averaged, "x"_a, "dim"_a = py::none(), "keepdim"_a = false, MayBlock(), "The mean, likewise.");
  m.def(
      "place",
      [](const Tensor& whole, const Layout& layout, const Grid& grid) {
        return place(plain("place", whole), layout, grid);
      },
      "whole"_a, "layout"_a, "grid"_a, MayBlock(),
      "Each rank of the grid keeps its piece of a tensor that all of them hold.\n"
      "Raises InvalidArgument where the layout is not of that shape, or is partial along an axis.");
  m.def(
      "whole", [](const DistributedTensor& x) { return whole(x); }, "x"_a, MayBlock(),
      "The global tensor, on every rank of the grid.");
  m.def(
      "whole",
      [](const Tensor& x) {
        if (!is_global(x)) refuse_plain("whole", py::cast(x));
        const Blocking blocking;
        return whole(x);
      },
      "x"_a);
  m.def(
      "map", [](const DistributedTensor& x, const Apply& f) { return map(x, f); }, "x"_a, "f"_a,
      "An elementwise function of the pieces. Raises InvalidArgument where it changes the shape.");
  m.def(
      "cat", [](const std::vector<DistributedTensor>& tensors, int64_t dim) { return cat(tensors, dim); }, "tensors"_a,
      "dim"_a = 0, MayBlock(),
      "Tensors one after another along a dim. Those that are not cut like the first one are moved.\n"
      "Raises InvalidArgument for other shapes.");
  m.def(
      "cat", [](const DistributedTensor& a, const DistributedTensor& b, int64_t dim) { return cat(a, b, dim); }, "a"_a,
      "b"_a, "dim"_a, MayBlock(), "b behind a.");
  for (const char* name : {"sum", "mean", "map", "cat"})
    m.def(
        name,
        [name](const Tensor& x, const py::args&, const py::kwargs&) -> DistributedTensor {
          refuse_plain(name, py::cast(x));
        },
        "x"_a);
  m.def(
      "cat",
      [](const py::list& tensors, int64_t) -> DistributedTensor {
        for (const py::handle x : tensors)
          if (!py::isinstance<DistributedTensor>(x)) refuse_plain("cat", py::reinterpret_borrow<py::object>(x));
        throw InternalError("cat: distributed tensors were not recognised");
      },
      "tensors"_a, "dim"_a = 0);
}

}  // namespace

void refuse_plain(const char* operation, const py::object& x) {
  throw InvalidArgument(std::string(operation) + ": expected a DistributedTensor, got a " +
                        std::string(py::str(py::type::of(x).attr("__name__"))) +
                        "; place it first: adjoin.place(x, layout, grid)");
}

void bind_movement(py::module_& m) {
  bind_distributed_tensor(m);
  bind_prepared(m);
  bind_between_layouts(m);
  bind_within_groups(m);
}

}  // namespace adjoin::python
