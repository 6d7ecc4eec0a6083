# How everything is compiled: the language, warnings, sanitizers, and what makes a second build quick.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# One code model for libraries and programs alike (not -fPIC here and -fPIE there), so that they can share the
# precompiled header.
add_compile_options(-fPIC)

# Many files at once need more memory than GCC begins with: it would collect what is free again and again.
add_compile_options($<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-expand=100> $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1000000>)

if(ADJOIN_SANITIZE)
  add_compile_options(-fsanitize=${ADJOIN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${ADJOIN_SANITIZE})
  # What GCC does by itself: a macro for each sanitizer, and names and lines in the reports of the tests.
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    foreach(sanitizer IN ITEMS ADDRESS THREAD)
      string(TOLOWER ${sanitizer} name)
      if(ADJOIN_SANITIZE MATCHES ${name})
        add_compile_definitions(__SANITIZE_${sanitizer}__=1)
      endif()
    endforeach()
    find_program(ADJOIN_ADDR2LINE addr2line)
    set(symbolizer ASAN_SYMBOLIZER_PATH=${ADJOIN_ADDR2LINE} TSAN_SYMBOLIZER_PATH=${ADJOIN_ADDR2LINE})
  endif()
  if(ADJOIN_SANITIZE_CORE)
    add_link_options(-fsanitize=${ADJOIN_SANITIZE_CORE})
  endif()
endif()

# For a target that knows no LibTorch, whose headers would take twice as long with these sanitizers.
function(adjoin_sanitize_core target)
  if(ADJOIN_SANITIZE_CORE)
    target_compile_options(${target} PRIVATE -fsanitize=${ADJOIN_SANITIZE_CORE} -fno-sanitize-recover=all)
  endif()
endfunction()

if(PROJECT_IS_TOP_LEVEL)
  find_program(ADJOIN_CCACHE ccache)
  if(ADJOIN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # Without these settings ccache refuses whatever uses a precompiled header. The base folder lets two checkouts share.
    set(CMAKE_CXX_COMPILER_LAUNCHER
        env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
        CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true ${ADJOIN_CCACHE})
    add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
  endif()
endif()

function(adjoin_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")  # which vectorises without GCC's ivdep
    target_compile_options(${target} PRIVATE -Wno-unknown-pragmas)
  elseif(CMAKE_UNITY_BUILD)  # GCC takes a type of an anonymous namespace for one of a header where a file includes the file
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# Lets a target use the one precompiled header. GCC takes it only where all that was defined for the header is defined
# too, and warns otherwise: an error here, or nobody would see why the build became slow.
#
# It holds the heavy headers that most files use. The whole of torch/torch.h would cost more than it saves: each file
# then repeats 5 s of template instantiations that the header left open (2 s with these).
function(adjoin_precompiled target)
  if(NOT TARGET adjoin_precompiled_header)
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/precompiled.cpp" CONTENT "// The precompiled header is all of it.\n")
    add_library(adjoin_precompiled_header OBJECT "${PROJECT_BINARY_DIR}/precompiled.cpp")
    target_link_libraries(adjoin_precompiled_header PRIVATE LibTorch::LibTorch)
    target_precompile_headers(adjoin_precompiled_header PRIVATE
      <ATen/ATen.h> <torch/csrc/autograd/custom_function.h> <torch/nn/module.h> <torch/nn/pimpl.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM adjoin_precompiled_header)
  target_compile_options(${target} PRIVATE -Werror=invalid-pch)
endfunction()

# What both libraries have in common. `export_name` is what users link to: adjoin::<export_name>.
function(adjoin_library target export_name headers)
  adjoin_warnings(${target})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${headers})
  # `cmake --build … --target <target>_verify_interface_header_sets` compiles every header on its own.
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${export_name} VERIFY_INTERFACE_HEADER_SETS ON)
  add_library(adjoin::${export_name} ALIAS ${target})
endfunction()
