# `cmake --install` puts headers, static libraries, the program and a CMake package into a prefix.

if(NOT ADJOIN_ALL_LAYERS)
  return()
endif()

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/adjoin")

install(TARGETS adjoin_core EXPORT adjoinCoreTargets FILE_SET HEADERS)
install(TARGETS adjoin_networks adjoin EXPORT adjoinTargets FILE_SET HEADERS)
install(EXPORT adjoinCoreTargets NAMESPACE adjoin:: DESTINATION "${package_dir}")
install(EXPORT adjoinTargets NAMESPACE adjoin:: DESTINATION "${package_dir}")

install(TARGETS adjoin_c EXPORT adjoinCTargets)
install(EXPORT adjoinCTargets NAMESPACE adjoin:: DESTINATION "${package_dir}")
install(FILES adjoin/c/adjoin.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/adjoin/c")
install(FILES fortran/adjoin.f90 DESTINATION "${CMAKE_INSTALL_DATADIR}/adjoin")
configure_file(cmake/adjoin.pc.in "${PROJECT_BINARY_DIR}/adjoin.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/adjoin.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

# CMake would leave out a LibTorch that lies within the checkout, as that of .venv does.
set_target_properties(adjoin_program PROPERTIES INSTALL_RPATH "${LibTorch_PREFIX}/lib" INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS adjoin_program)

configure_package_config_file(cmake/adjoinConfig.cmake.in "${PROJECT_BINARY_DIR}/adjoinConfig.cmake"
                              INSTALL_DESTINATION "${package_dir}" PATH_VARS CMAKE_INSTALL_DATADIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/adjoinConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/adjoinConfig.cmake" "${PROJECT_BINARY_DIR}/adjoinConfigVersion.cmake"
              cmake/FindLibTorch.cmake
        DESTINATION "${package_dir}")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
