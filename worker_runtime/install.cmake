# What `cmake --install` puts in place, and the package that find_package(ddprun) finds there; the
# component `development` is what only those need who build against it (packaging/).
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ddprun)

install(TARGETS ddprun_worker_runtime EXPORT ddprunTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT programs
  NAMELINK_COMPONENT development)
if(TARGET ddprun_cuda)
  install(TARGETS ddprun_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT programs)
endif()
install(DIRECTORY ddp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.h")
install(EXPORT ddprunTargets NAMESPACE ddprun:: DESTINATION ${package_dir} COMPONENT development)
configure_package_config_file(ddprunConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/ddprunConfig.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/ddprunConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ddprunConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/ddprunConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT development)
# The same under the name that the headers and the namespace have: find_package(ddp), ddp::ddp.
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ddp)
install(FILES ddpConfig.cmake DESTINATION ${package_dir} COMPONENT development)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/ddprunConfigVersion.cmake DESTINATION ${package_dir}
  RENAME ddpConfigVersion.cmake COMPONENT development)
