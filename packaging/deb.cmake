# `cpack` makes two Debian packages: ddprun (programs, shared libraries, documents, unit file) and
# ddprun-dev (headers, CMake packages). scripts/package is the short way to them.
# Who answers for the packages: by the variables that Debian's own tools read.
set(maintainer "ddprun authors <root@localhost>")
if(DEFINED ENV{DEBEMAIL})
  set(maintainer "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()

# What Debian's policy wants in each package: the licence, and a history.
string(TIMESTAMP made_at "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(changelog ${CMAKE_CURRENT_BINARY_DIR}/changelog)
file(WRITE ${changelog} "ddprun (${PROJECT_VERSION}) bookworm; urgency=medium

  * Version ${PROJECT_VERSION}.

 -- ${maintainer}  ${made_at}
")
execute_process(COMMAND ${GZIP} -9nkf ${changelog} COMMAND_ERROR_IS_FATAL ANY)
foreach(package programs:ddprun development:ddprun-dev)
  string(REPLACE ":" ";" package ${package})
  list(GET package 0 component)
  list(GET package 1 name)
  set(folder ${CMAKE_INSTALL_DATADIR}/doc/${name})
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${folder} RENAME copyright
    COMPONENT ${component})
  install(FILES ${changelog}.gz DESTINATION ${folder} COMPONENT ${component})
  string(TOUPPER ${component} key)
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${name})
endforeach()
file(READ lintian-overrides overrides)
if(TARGET ddprun_cuda)
  file(READ lintian-overrides-gpu overrides_gpu)
  string(APPEND overrides "${overrides_gpu}")
endif()
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/lintian-overrides "${overrides}")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lintian-overrides
  DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME ddprun COMPONENT programs)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_CONTACT "${maintainer}")
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL programs development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION "native elastic launcher for distributed training
 ddprun starts a training job on one or many nodes, restarts it when a worker
 or a node fails, and says what went wrong. It takes torchrun's options. With
 it come the worker runtime for training programs in C++, and train, a program
 made with it.")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "worker runtime of ddprun, for building against it
 The headers and the CMake packages of the library for training programs in
 C++: process groups, data parallelism, a sampler, snapshots.")
# What the programs link, as dpkg-shlibdeps finds it; the own library is in the package itself.
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SUGGESTS "python3, libssl3")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "ddprun (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY "=")
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_CONTROL_EXTRA
  ${CMAKE_CURRENT_SOURCE_DIR}/postinst ${CMAKE_CURRENT_SOURCE_DIR}/postrm
  ${CMAKE_CURRENT_SOURCE_DIR}/triggers)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
