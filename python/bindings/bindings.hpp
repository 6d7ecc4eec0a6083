#pragma once

#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <vector>

#include "adjoin/comm/contract/call_site.hpp"
#include "adjoin/nn/distributed/route.hpp"
#include "adjoin/partition/layout.hpp"

/// What the files of the extension module share. Each binds a part of the library, with the names that the part has there.
namespace adjoin::python {

namespace py = pybind11;

void bind_errors(py::module_& m);
void bind_launch(py::module_& m);
void bind_partition(py::module_& m);
void bind_communicator(py::module_& m);
void bind_movement(py::module_& m);
void bind_layers(py::module_& m);
void bind_twins(py::module_& m);
void bind_training(py::module_& m);
void bind_state(py::module_& m);
void bind_pipeline(py::module_& m);
void bind_gradients(py::module_& m);
void bind_distribute(py::module_& m);

/// The line of Python that is being carried out, outside of this package and of torch.
Where caller();

/// Tells what watches for Ctrl-C that this rank is in a call, which ends when the world is aborted.
class InCall {
 public:
  InCall();
  ~InCall();
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;

 private:
  bool was_in_call_ = false;
};

/// While it lives, other threads have the interpreter, and calls of communicators are named by the line of Python that asked
/// for them: the guard of all that may wait for other ranks.
///
/// A constructor that returns an Owner has it within its function, not as a call guard: pybind11 registers the object while a
/// call guard still lives, thus without the interpreter's lock, beside other threads that change the same table.
class Blocking {
  CallSite site_{caller()};
  InCall in_call_;
  py::gil_scoped_release release_;
};
using MayBlock = py::call_guard<Blocking>;

/// Throws InvalidArgument for a plain tensor, or anything else, where a DistributedTensor is expected.
[[noreturn]] void refuse_plain(const char* operation, const py::object& x);

Kind kind_named(const std::string& name);
Padding padding_named(const std::string& name);

using Axes = std::vector<std::string>;
/// {"y": 2, "x": 3}, or a list of such pairs.
std::vector<GridShape::Axis> axes_of(const py::object& axes);
/// A GridShape, or that of a Grid.
GridShape shape_of(const py::object& grid);
/// A function of a shape, a Layout, which stands for itself, or None.
nn::LayoutRule rule_of(const py::object& rule);

/// An owner of C++ objects whose end may wait for other threads, which it lets have the interpreter meanwhile.
template <class T>
struct Unlocked {
  void operator()(T* object) const {
    if (PyGILState_Check() != 0) {
      const py::gil_scoped_release release;
      delete object;
    } else {
      delete object;
    }
  }
};
template <class T>
using Owner = std::unique_ptr<T, Unlocked<T>>;

}  // namespace adjoin::python
