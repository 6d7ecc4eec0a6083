# Finds LibTorch and gives the target LibTorch::LibTorch.
#
# Looked for in TORCH_DIR (a variable or from the environment), then where this build folder found it before, then in
# CMAKE_PREFIX_PATH (as `torch.utils.cmake_prefix_path` gives it, or the folder that holds include/ and lib/), then in the
# checkout's .venv.
#
# LibTorch's own TorchConfig.cmake is not used: with a wheel for GPUs it ends the configuration where there is no CUDA
# toolkit, which nothing here needs.

set(_libtorch_places ${TORCH_DIR})
if(NOT TORCH_DIR AND DEFINED ENV{TORCH_DIR})
  list(APPEND _libtorch_places "$ENV{TORCH_DIR}")
endif()
foreach(_place IN LISTS LibTorch_PREFIX LibTorch_ROOT LIBTORCH_HINT CMAKE_PREFIX_PATH)
  list(APPEND _libtorch_places "${_place}")
endforeach()
if(DEFINED ENV{CMAKE_PREFIX_PATH})
  string(REPLACE ":" ";" _libtorch_environment "$ENV{CMAKE_PREFIX_PATH}")
  list(APPEND _libtorch_places ${_libtorch_environment})
endif()
file(GLOB _libtorch_venv "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch")
list(APPEND _libtorch_places ${_libtorch_venv})

# torch/, torch/share/cmake and torch/share/cmake/Torch all name the same LibTorch.
set(_libtorch_prefixes)
foreach(_place IN LISTS _libtorch_places)
  list(APPEND _libtorch_prefixes "${_place}" "${_place}/../.." "${_place}/../../..")
endforeach()

foreach(_prefix IN LISTS _libtorch_prefixes)
  if(EXISTS "${_prefix}/include/ATen/core/Tensor.h" AND EXISTS "${_prefix}/lib/libtorch.so")
    get_filename_component(_libtorch_prefix "${_prefix}" ABSOLUTE)
    break()
  endif()
endforeach()
if(DEFINED _libtorch_prefix)
  set(LibTorch_PREFIX "${_libtorch_prefix}" CACHE PATH "The folder that holds LibTorch's include/ and lib/" FORCE)
  set(LibTorch_INCLUDE_DIRS "${LibTorch_PREFIX}/include" "${LibTorch_PREFIX}/include/torch/csrc/api/include")
  file(STRINGS "${LibTorch_PREFIX}/include/torch/headeronly/version.h" _libtorch_version
       REGEX "^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9]+([0-9]+)" ".\\1" LibTorch_VERSION "${_libtorch_version}")
  string(REGEX REPLACE "^\\.|;" "" LibTorch_VERSION "${LibTorch_VERSION}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  LibTorch REQUIRED_VARS LibTorch_PREFIX LibTorch_INCLUDE_DIRS VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "Run tools/setup, or set TORCH_DIR to the folder that holds LibTorch's include/ and lib/.")

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  foreach(_library c10 torch_cpu torch)
    add_library(LibTorch::${_library} SHARED IMPORTED)
    set_target_properties(LibTorch::${_library} PROPERTIES IMPORTED_LOCATION "${LibTorch_PREFIX}/lib/lib${_library}.so")
  endforeach()
  find_library(LibTorch_OPENMP NAMES libgomp.so.1 gomp HINTS "${LibTorch_PREFIX}/lib" NO_CACHE)  # LibTorch's own, if it has one
  if(NOT LibTorch_OPENMP)
    set(LibTorch_OPENMP)
  endif()
  # Nothing refers to libtorch.so itself, which holds the other libraries together (on GPUs, those of CUDA). The C++ library goes before
  # it: LibTorch's wheels for GPUs export functions of another one (std::filesystem::remove_all), of which parts are missing.
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  set_target_properties(LibTorch::LibTorch PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_INCLUDE_DIRS}"
    INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO;USE_RPC;USE_TENSORPIPE"  # as LibTorch was compiled
    INTERFACE_LINK_LIBRARIES "-Wl,--no-as-needed;-lstdc++;LibTorch::torch;-Wl,--as-needed;LibTorch::torch_cpu;LibTorch::c10;${LibTorch_OPENMP}")
endif()
