# For the preset `portable`: programs that run where glibc is 2.28 or newer, built on any Debian 12.
set(CMAKE_CXX_COMPILER ${CMAKE_CURRENT_LIST_DIR}/c++)
# Where Debian has what CMake looks for: of zig it learns no such name.
set(CMAKE_LIBRARY_ARCHITECTURE ${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu)
set(CMAKE_CXX_FLAGS_INIT "-include ${CMAKE_CURRENT_LIST_DIR}/close_range.h")

# The headers of libraries by themselves: /usr/include has this system's glibc beside them, and another
# one is linked.
set(headers ${CMAKE_CURRENT_LIST_DIR}/../../build-portable/headers)
file(MAKE_DIRECTORY ${headers}/openssl)
foreach(name boost CLI fmt nlohmann sodium sodium.h spdlog xxhash.h)
  file(CREATE_LINK /usr/include/${name} ${headers}/${name} SYMBOLIC)
endforeach()
file(GLOB openssl /usr/include/openssl/*.h /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openssl/*.h)
foreach(header ${openssl})
  cmake_path(GET header FILENAME name)
  file(CREATE_LINK ${header} ${headers}/openssl/${name} SYMBOLIC)
endforeach()
string(APPEND CMAKE_CXX_FLAGS_INIT " -isystem ${headers}")
