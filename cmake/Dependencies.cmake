# What the libraries link to. A missing one ends the configuration; none is optional.

find_package(Threads REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)

if(NOT ADJOIN_CORE_ONLY)
  find_package(LibTorch 2.13 REQUIRED)
  find_package(ZLIB REQUIRED)
  find_package(tomlplusplus REQUIRED)
  pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
endif()

if(NOT ADJOIN_CORE_ONLY OR ADJOIN_BUILD_TESTS)  # the examples' options need it too
  find_package(CLI11 REQUIRED)
endif()

if(ADJOIN_BUILD_PYTHON)
  # The interpreter of the environment that LibTorch lies in, if it does in one: <environment>/lib/python3.x/site-packages/torch.
  if(NOT Python3_EXECUTABLE AND EXISTS "${LibTorch_PREFIX}/../../../../bin/python3")
    cmake_path(NORMAL_PATH LibTorch_PREFIX OUTPUT_VARIABLE _torch)
    cmake_path(SET Python3_EXECUTABLE NORMALIZE "${_torch}/../../../../bin/python3")
  endif()
  find_package(Python3 COMPONENTS Interpreter Development.Module REQUIRED)
endif()

if(ADJOIN_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
endif()
