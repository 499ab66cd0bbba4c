# Gives the target ddp::ddp: the worker runtime of the ddprun package that lies beside this one.
include(CMakeFindDependencyMacro)
find_dependency(ddprun HINTS ${CMAKE_CURRENT_LIST_DIR}/../ddprun)
if(NOT TARGET ddp::ddp)
  add_library(ddp::ddp INTERFACE IMPORTED)
  set_target_properties(ddp::ddp PROPERTIES INTERFACE_LINK_LIBRARIES ddprun::worker_runtime)
endif()
check_required_components(ddp)
set(ddp_NOT_FOUND_MESSAGE "it has no components, and was asked for: ${ddp_FIND_COMPONENTS}")
