# What `cmake --install` puts in place, and the package that find_package(ddprun) finds there.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ddprun)

install(TARGETS ddprun_worker_runtime EXPORT ddprunTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET ddprun_cuda)
  install(TARGETS ddprun_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY ddp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT ddprunTargets NAMESPACE ddprun:: DESTINATION ${package_dir})
configure_package_config_file(ddprunConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/ddprunConfig.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/ddprunConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ddprunConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/ddprunConfigVersion.cmake DESTINATION ${package_dir})
