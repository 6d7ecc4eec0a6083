# What the libraries link to. A missing one ends the configuration; none is optional.

find_package(Threads REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)

if(NOT ADJOIN_CORE_ONLY)
  find_package(LibTorch 2.13 REQUIRED)
  find_package(tomlplusplus REQUIRED)
  pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
endif()

if(NOT ADJOIN_CORE_ONLY OR ADJOIN_BUILD_TESTS)  # the examples' options need it too
  find_package(CLI11 REQUIRED)
endif()

if(ADJOIN_BUILD_PYTHON AND NOT ADJOIN_CORE_ONLY)
  # The interpreter of the environment that torch lies in, if it does in one: <environment>/lib/python3.x/site-packages/torch.
  if(NOT Python3_EXECUTABLE AND EXISTS "${LibTorch_PREFIX}/../../../../bin/python3")
    cmake_path(SET Python3_EXECUTABLE NORMALIZE "${LibTorch_PREFIX}/../../../../bin/python3")
  endif()
  find_package(Python3 COMPONENTS Interpreter OPTIONAL_COMPONENTS Development.Module)
  set(_lacks)
  if(NOT Python3_Development.Module_FOUND)
    set(_lacks "there are no headers of Python (python3-dev)")
  elseif(NOT EXISTS "${LibTorch_PREFIX}/lib/libtorch_python.so")
    set(_lacks "${LibTorch_PREFIX} is no torch of Python")
  endif()
  if(_lacks AND ADJOIN_BUILD_PYTHON STREQUAL AUTO)
    message(STATUS "The Python package is not built: ${_lacks}")
    set(ADJOIN_BUILD_PYTHON OFF)
  elseif(_lacks)
    message(FATAL_ERROR "The Python package cannot be built: ${_lacks}")
  endif()
endif()

if(ADJOIN_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
endif()
