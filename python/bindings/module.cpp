#include <torch/headeronly/version.h>

#include "adjoin/base/version.hpp"
#include "python/bindings/bindings.hpp"

namespace {

/// A deep copy of a handle, or of a value that cannot change, is the same object: so modules that hold one can be copied.
void bind_copies(const pybind11::module_& m) {
  for (const char* name : {"AsyncCommunicator", "Communicator", "Grid", "GridShape", "HaloExchange", "Layer", "Layout",
                           "Move", "TokenRows", "Rule", "Split"}) {
    const pybind11::object bound = m.attr(name);
    bound.attr("__deepcopy__") =
        pybind11::cpp_function([](pybind11::object self, const pybind11::dict&) { return self; },
                               pybind11::name("__deepcopy__"), pybind11::is_method(bound));
  }
}

}  // namespace

PYBIND11_MODULE(_adjoin, m) {
  using namespace adjoin::python;
  m.attr("__version__") = adjoin::kVersion;
  m.attr("torch_version") = TORCH_VERSION;
  bind_errors(m);
  bind_launch(m);
  bind_communicator(m);
  bind_partition(m);
  bind_movement(m);
  bind_training(m);
  bind_state(m);
  bind_pipeline(m);
  bind_gradients(m);
  bind_distribute(m);
  bind_layers(m);
  bind_twins(m);
  bind_copies(m);
}
