#include "python/caller.hpp"

#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

namespace adjoin::python {

namespace py = pybind11;

namespace {

std::vector<std::string>& inner_folders() {
  static auto& folders = *new std::vector<std::string>;
  return folders;
}

/// The same text for as long as the process lives. The interpreter's lock guards it.
const char* kept_name(const char* file) {
  static auto& names = *new std::set<std::string>;
  static const char* latest = "";
  if (std::strcmp(latest, file) != 0) latest = names.insert(file).first->c_str();
  return latest;
}

}  // namespace

void set_inner_folders(std::vector<std::string> folders) {
  inner_folders() = std::move(folders);
}

std::optional<Where> line_of_caller() {
  auto frame =
      py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  while (frame) {
    auto* const now = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const auto code = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(now)));
    const char* const file = PyUnicode_AsUTF8(reinterpret_cast<PyCodeObject*>(code.ptr())->co_filename);
    if (!file) {
      PyErr_Clear();
      break;
    }
    const auto is_in = [path = std::string_view(file)](const std::string& folder) { return path.starts_with(folder); };
    if (std::ranges::none_of(inner_folders(), is_in))
      return Where(kept_name(file), static_cast<uint32_t>(PyFrame_GetLineNumber(now)));
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(now)));
  }
  return std::nullopt;
}

std::optional<Where> find_caller() {
  if (Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0 || !PyGILState_GetThisThreadState()) return std::nullopt;
  const py::gil_scoped_acquire interpreter;
  return line_of_caller();
}

}  // namespace adjoin::python
