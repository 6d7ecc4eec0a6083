#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "adjoin/movement/global_tensor.hpp"
#include "adjoin/parallel/automatic.hpp"
#include "adjoin/parallel/distribute.hpp"
#include "python/bindings/bindings.hpp"

namespace adjoin::python {
namespace {

using at::Tensor;
using parallel::CutText;
using Tensors = std::vector<std::tuple<std::string, Tensor, bool>>;

std::vector<parallel::NamedTensor> named(const Tensors& tensors) {
  std::vector<parallel::NamedTensor> found;
  for (const auto& [name, tensor, is_buffer] : tensors) found.push_back({name, tensor, is_buffer});
  return found;
}

/// The cuts of the weights, and those of the inputs.
auto automatic(const Tensors& tensors, const py::object& grid, const std::vector<Tensor>& inputs,
               std::vector<std::vector<CutText>> choices, const std::function<void()>& code,
               std::vector<std::string> weights_over, const std::optional<rules::MoveCost>& move, double computed) {
  parallel::AutomaticOptions options{
      .inputs = std::move(choices), .weights_over = std::move(weights_over), .computed = computed};
  if (move) options.move = *move;
  parallel::CutSearch search(named(tensors), shape_of(grid), inputs, code, std::move(options));
  const py::gil_scoped_release release;
  parallel::Cuts cuts = search.best();
  return std::pair(std::move(cuts.weights), std::move(cuts.inputs));
}

}  // namespace

void bind_distribute(py::module_& m) {
  using namespace py::literals;
  using parallel::Distributed;
  using Pieces = std::vector<nn::Parameter>;
  struct Again {  // for a `with`
    const Distributed* of;
    int64_t drawn;
    std::shared_ptr<DrawsAgain> now = {};
  };
  struct Alike {
    const Distributed* of;
    std::shared_ptr<DrawsAlike> now = {};
  };
  py::class_<Alike>(m, "DrawsAlike")
      .def("__enter__", [](Alike& alike) { alike.now = alike.of->draw_alike(); })
      .def("__exit__", [](Alike& alike, const py::args&) { alike.now.reset(); });
  py::class_<Again>(m, "DrawsAgain")
      .def("__enter__", [](Again& again) { again.now = again.of->draw_again(again.drawn); })
      .def("__exit__", [](Again& again, const py::args&) { again.now.reset(); });
  py::class_<Distributed, Owner<Distributed>>(m, "Distributed")
      .def(py::init([](const Tensors& tensors, const Grid& grid, std::vector<std::pair<std::string, CutText>> weights) {
             const std::vector<parallel::NamedTensor> all = named(tensors);
             const Blocking blocking;
             return Owner<Distributed>(new Distributed(all, grid, {std::move(weights)}));
           }),
           "tensors"_a, "grid"_a, "weights"_a)
      .def(
          "begin", [](const Distributed& model, const Step& step) { model.begin(step); }, "step"_a)
      .def(
          "draw_alike", [](const Distributed& d) { return Alike{&d}; }, py::keep_alive<0, 1>())
      .def_property_readonly("drawn", &Distributed::drawn)
      .def(
          "draw_again",
          [](const Distributed& d, int64_t drawn) {
            return Again{&d, drawn};
          },
          "drawn"_a, py::keep_alive<0, 1>())
      .def("laid_out", &Distributed::laid_out, "whole"_a, "cut"_a, MayBlock())
      .def("parameters", [](const Distributed& d) { return Pieces(d.parameters()); })
      .def("trained", [](const Distributed& d) { return Pieces(d.trained()); })
      .def(
          "shards", [](const Distributed& d) { return Pieces(d.shards()); }, MayBlock())
      .def("__repr__", &Distributed::to_string);
  m.def("automatic", &automatic, "tensors"_a, "grid"_a, "inputs"_a, "choices"_a, "code"_a, "weights_over"_a, "move"_a,
        "computed"_a);
  m.def("is_global", &is_global, "x"_a,
        "Whether a tensor has the sizes of a global one, of which this rank holds a piece.");
  m.def(
      "local_of", [](const Tensor& x) { return local_of(x); }, "x"_a, MayBlock(),
      "What a global tensor stands for. Raises InvalidArgument for a plain tensor.");
  m.def(
      "piece_of",
      [](const std::string& name, const Tensor& x, bool is_buffer) {
        const DistributedTensor piece = local_of(x.detach());
        return nn::Parameter{name, piece.local, piece.layout, piece.grid, std::nullopt, is_buffer};
      },
      "name"_a, "x"_a, "is_buffer"_a = false);
}

}  // namespace adjoin::python
