#include <torch/headeronly/version.h>

#include "adjoin/base/version.hpp"
#include "python/bindings/bindings.hpp"

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
  bind_layers(m);
  bind_twins(m);
}
