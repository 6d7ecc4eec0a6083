#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "adjoin/movement/check_gradients.hpp"
#include "adjoin/movement/forward_record.hpp"
#include "adjoin/movement/recompute.hpp"
#include "adjoin/nn/parameter.hpp"
#include "adjoin/nn/seeded.hpp"
#include "python/bindings/bindings.hpp"

namespace adjoin::python {
namespace {

using namespace py::literals;
using at::Tensor;
using KindNames = std::map<std::string, std::string>;

std::map<std::string, Kind> kinds_named(const KindNames& names) {
  std::map<std::string, Kind> kinds;
  for (const auto& [axis, kind] : names) kinds[axis] = kind_named(kind);
  return kinds;
}

using Input = std::tuple<std::string, Tensor, py::object, Communicator>;  // the third: a Layout, or kinds along axes

void check(const Tensor& loss, const std::vector<nn::Parameter>& pieces, const std::vector<Input>& inputs,
           const Grid& grid, const KindNames& loss_kinds) {
  std::vector<KnownTensor> known;
  for (const auto& [name, tensor, kinds, world] : inputs) {
    if (py::isinstance<Layout>(kinds))
      known.push_back({name, tensor, kinds.cast<Layout>(), world});
    else
      known.push_back({name, tensor, kinds_named(kinds.cast<KindNames>()), world});
  }
  const Blocking blocking;
  check_gradients(loss, nn::known_tensors(pieces), known, grid, kinds_named(loss_kinds));
}

/// A ForwardRecord for as long as a `with` lasts.
struct Recording {
  std::optional<ForwardRecord> record;
};

}  // namespace

void bind_gradients(py::module_& m) {
  m.def("check_gradients", &check, "loss"_a, "pieces"_a, "inputs"_a, "grid"_a, "loss_kinds"_a);
  py::class_<Recording>(m, "ForwardRecord",
                        "with adjoin.ForwardRecord(): records what autograd's graph does not have for check_gradients: "
                        "segments that are computed again, and the layouts that layers say.")
      .def(py::init<>())
      .def("__enter__",
           [](Recording& recording) -> Recording& {
             recording.record.emplace();
             return recording;
           })
      .def("__exit__", [](Recording& recording, const py::args&) { recording.record.reset(); });
  m.def("recomputed", &recomputed, "f"_a, "inputs"_a, MayBlock());
  m.def("with_seed", &nn::with_seed, "seed"_a, "work"_a, py::call_guard<py::gil_scoped_release>());
}

}  // namespace adjoin::python
