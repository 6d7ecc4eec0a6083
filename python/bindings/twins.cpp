#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>

#include "adjoin/base/error.hpp"
#include "adjoin/linalg/agreement.hpp"
#include "adjoin/nn/distributed/twin.hpp"
#include "python/bindings/kinds.hpp"
#include "python/bindings/layer.hpp"

namespace adjoin::python {
namespace {

using namespace py::literals;
using torch::nn::AnyModule;

/// Makes LibTorch's module of the kind that Python's is of, from which the library makes the one on a placement. Its weights
/// are of no use: they come with the state.
struct MakeTwin {
  const nn::NetworkPlacement& placement;
  const std::string& place;
  at::ScalarType type;
  std::optional<AnyModule>& made;

  template <class Here, class Twin, class Options>
  void operator()(const Options& options) const {
    const Blocking blocking;
    Twin layer(options);
    layer.to(type);
    made = nn::twin_of(layer, placement, place);
  }
};

std::optional<Layer> twin(const std::string& kind, const py::dict& options, at::ScalarType type,
                          const nn::NetworkPlacement& placement, const std::string& place) {
  std::optional<AnyModule> made;
  const Given g(kind, options);
  if (!visit_kind(kind, g, MakeTwin{placement, place, type, made}) || !made) return std::nullopt;
  const auto module = std::make_shared<AnyModule>(*made);
  return Layer(module->ptr(), [module](const DistributedTensor& x) { return module->forward<DistributedTensor>(x); });
}

}  // namespace

void bind_twins(py::module_& m) {
  py::class_<nn::NetworkPlacement>(m, "NetworkPlacement")
      .def(py::init([](const Grid& grid, Axes batch, Axes channels, std::vector<Axes> space) {
             return nn::NetworkPlacement{grid, std::move(batch), std::move(channels), std::move(space)};
           }),
           "grid"_a, "batch"_a = Axes(), "channels"_a = Axes(), "space"_a = std::vector<Axes>())
      .def_readonly("grid", &nn::NetworkPlacement::grid)
      .def_readonly("batch", &nn::NetworkPlacement::batch)
      .def_readonly("channels", &nn::NetworkPlacement::channels)
      .def_readonly("space", &nn::NetworkPlacement::space)
      .def("of_space", &nn::NetworkPlacement::of_space, "shape"_a, "space_dims"_a)
      .def("of_features", &nn::NetworkPlacement::of_features, "shape"_a)
      .def("check_axes", &nn::NetworkPlacement::check_axes);
  m.def("twin", &twin);
  m.def(
      "check_agreement",
      [](const std::string& who, const std::string& text, const Communicator& group) {
        linalg::check_agreement(who.c_str(), text, group);
      },
      MayBlock());
}

}  // namespace adjoin::python
