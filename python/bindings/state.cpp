#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adjoin/nn/parameter.hpp"
#include "adjoin/nn/state.hpp"
#include "adjoin/parallel/gradients.hpp"
#include "adjoin/store/checkpoint.hpp"
#include "adjoin/train/failures.hpp"
#include "python/bindings/bindings.hpp"

namespace adjoin::python {

void bind_state(py::module_& m) {
  using namespace py::literals;
  using at::Tensor;
  using Pieces = std::vector<nn::Parameter>;
  py::class_<nn::Parameter>(m, "Piece", "A parameter, or a buffer, with the global tensor that it is a piece of.")
      .def(py::init([](const std::string& name, const Tensor& tensor, const Layout& layout, const Grid& grid,
                       bool is_buffer, std::vector<int64_t> matrices) {
             return nn::Parameter{name, tensor, layout, grid, std::nullopt, is_buffer, std::move(matrices)};
           }),
           "name"_a, "tensor"_a, "layout"_a, "grid"_a, "is_buffer"_a = false, "matrices"_a = std::vector<int64_t>())
      .def(
          "named",
          [](nn::Parameter piece, const std::string& name, const Tensor& tensor) {
            piece.name = name;
            piece.tensor = tensor;
            return piece;
          },
          "name"_a, "tensor"_a)
      .def_readonly("name", &nn::Parameter::name)
      .def_readonly("tensor", &nn::Parameter::tensor)
      .def_readonly("layout", &nn::Parameter::layout)
      .def_readonly("grid", &nn::Parameter::grid)
      .def_readonly("is_buffer", &nn::Parameter::is_buffer)
      .def_readwrite("matrices", &nn::Parameter::matrices)
      .def("__repr__", [](const nn::Parameter& p) { return "Piece('" + p.name + "', " + p.layout.to_string() + ")"; });
  m.def(
      "initialize", [](const Pieces& pieces, uint64_t seed) { nn::initialize(pieces, seed); }, "pieces"_a, "seed"_a,
      MayBlock());
  m.def(
      "gather_state", [](const Pieces& pieces, int rank) { return nn::gather_state(pieces, rank); }, "pieces"_a,
      "rank"_a = 0, MayBlock());
  m.def(
      "scatter_state",
      [](const nn::State& state, const Pieces& pieces, int rank) { nn::scatter_state(state, pieces, rank); }, "state"_a,
      "pieces"_a, "rank"_a = 0, MayBlock());
  m.def(
      "sum_gradients", [](const Pieces& pieces) { parallel::sum_gradients(pieces); }, "pieces"_a, MayBlock());
  m.def("held_by_all", &nn::held_by_all, "name"_a, "number"_a, "grid"_a);
  m.def(
      "save_state",
      [](const std::string& path, const Pieces& pieces, const Grid& grid, const train::Metadata& metadata) {
        train::with_adjoin_errors([&] { train::save_state(path, pieces, grid, metadata); });
      },
      "path"_a, "pieces"_a, "grid"_a, "metadata"_a, MayBlock());
  m.def(
      "load_state",
      [](const std::string& path, const Pieces& pieces) {
        train::with_adjoin_errors([&] { train::load_state(path, pieces); });
      },
      "path"_a, "pieces"_a, MayBlock());
}

}  // namespace adjoin::python
