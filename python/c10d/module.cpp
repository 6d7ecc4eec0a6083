#include <pybind11/chrono.h>
#include <pybind11/functional.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <variant>

#include "adjoin/comm/host/group_world.hpp"
#include "python/c10d/process_group.hpp"

namespace {

namespace py = pybind11;
using adjoin::SharedMemory;
using adjoin::c10d_backend::ProcessGroup;
using namespace py::literals;

/// A group, or why its ranks cannot share memory, the same on all.
std::variant<c10::intrusive_ptr<ProcessGroup>, std::string> make_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                                       int rank, std::vector<int> world_ranks,
                                                                       int world_size,
                                                                       std::chrono::milliseconds timeout) {
  try {
    return c10::make_intrusive<ProcessGroup>(store, rank, std::move(world_ranks), world_size, timeout);
  } catch (const adjoin::host::NoSharedMemory& error) {
    return std::string(error.what());
  }
}

}  // namespace

PYBIND11_MODULE(_c10d, m) {
  py::class_<ProcessGroup, c10d::Backend, c10::intrusive_ptr<ProcessGroup>>(m, "ProcessGroupAdjoin")
      .def_property_readonly("options", &ProcessGroup::options);
  py::class_<ProcessGroup::Options, c10d::Backend::Options, c10::intrusive_ptr<ProcessGroup::Options>>(m, "Options");
  m.def("make_group", &make_group, "store"_a, "rank"_a, "world_ranks"_a, "world_size"_a, "timeout"_a,
        py::call_guard<py::gil_scoped_release>());
  m.def("set_inner_folders", &adjoin::python::set_inner_folders);
  m.def("set_make_gloo",
        [](adjoin::c10d_backend::MakeGloo make) { adjoin::c10d_backend::make_gloo() = std::move(make); });
  m.def(
      "begin_to_share",
      []() -> std::string {
        try {
          adjoin::host::GroupWorld::begin_to_share();
        } catch (const adjoin::CommunicationError& error) {
          return error.what();
        }
        return "";
      },
      "Why this process cannot share memory; empty where it can, and from then on does");
  m.def("leave", &adjoin::host::GroupWorld::leave_host);
  m.def(
      "memory", [] { return reinterpret_cast<uintptr_t>(&SharedMemory::variable()); },
      "Where this module keeps the memory that processes share, for another module of this process");
  m.def("is_shared", [](const at::Tensor& tensor) {
    return SharedMemory::current() != nullptr && SharedMemory::current()->reaches(tensor.const_data_ptr());
  });
}
