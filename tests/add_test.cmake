# How tests are registered: one ctest for each TEST_CASE and each Python test method, so that each is
# passed, failed or skipped by itself. Exit code 77 is ctest's SKIP_RETURN_CODE everywhere.

# ddprun_add_test_program(NAME SOURCES... LIBS...): one Catch2 program.
# SOLO: those of SOURCES whose file-local names others have too; they are compiled by themselves.
function(ddprun_add_test_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;SOLO;LIBS;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE ddprun_test_main ${ARG_LIBS})
  target_compile_options(${name} PRIVATE ${DDPRUN_TEST_OPTIONS})
  target_precompile_headers(${name} REUSE_FROM ddprun_test_headers)
  ddprun_unity(${name} 16)
  set_source_files_properties(${ARG_SOLO} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
endfunction()

# ddprun_add_cases(PROGRAM [PREFIX words] [FILE stem]): each TEST_CASE of the program, or of its source
# <stem>.cc alone, or what matches SPEC (Catch2's), becomes a ctest "PREFIX: name".
function(ddprun_add_cases program)
  cmake_parse_arguments(ARG "" "PREFIX;FILE;SPEC;TIMEOUT" "LABELS;PROPERTIES" ${ARGN})
  if(NOT ARG_PREFIX)
    set(ARG_PREFIX ${program})
  endif()
  # What has the tag [long] trains for minutes in a sanitizer's build, by code that shorter tests run.
  set(spec ${ARG_SPEC})
  if(DDPRUN_SANITIZE AND NOT spec)
    set(spec "~[long]")
  endif()
  set(only)
  if(ARG_FILE)
    set(only TEST_SPEC --filenames-as-tags "[#${ARG_FILE}]${spec}")
  elseif(spec)
    set(only TEST_SPEC "${spec}")
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 180) # a test that waits in vain ends before, and tells what for
  endif()
  if(DDPRUN_SANITIZE AND ARG_TIMEOUT LESS 600)
    set(ARG_TIMEOUT 600) # instrumented code is up to ten times as slow
  endif()
  if(DDPRUN_SANITIZE AND NOT "e2e" IN_LIST ARG_LABELS)
    list(APPEND ARG_PROPERTIES PROCESSORS 3) # and keeps a core busy: scripts/test
  endif()
  if(ARG_LABELS)
    list(APPEND ARG_PROPERTIES LABELS "${ARG_LABELS}")
  endif()
  catch_discover_tests(${program} ${only} TEST_PREFIX "${ARG_PREFIX}: "
    PROPERTIES TIMEOUT ${ARG_TIMEOUT} SKIP_RETURN_CODE 77 ${ARG_PROPERTIES})
endfunction()

# ddprun_add_test(NAME ...): both, with the words of both.
function(ddprun_add_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;SOLO;LIBS;LABELS;DEPENDS;PROPERTIES" ${ARGN})
  ddprun_add_test_program(${name} SOURCES ${ARG_SOURCES} SOLO ${ARG_SOLO} LIBS ${ARG_LIBS}
    DEPENDS ${ARG_DEPENDS})
  if("threads" IN_LIST ARG_LABELS)
    add_dependencies(threads_tests ${name})
  endif()
  ddprun_add_cases(${name} TIMEOUT ${ARG_TIMEOUT} LABELS ${ARG_LABELS} PROPERTIES ${ARG_PROPERTIES})
endfunction()

# ddprun_add_python_tests(PREFIX FILE ...): each test method of a unittest file (which ends with
# skip.main()) becomes a ctest of its own, so that each is passed, failed or skipped by itself.
# OPTIONS come before the method's name; what matches the regular expression LEAVE_OUT is left out.
function(ddprun_add_python_tests prefix file)
  cmake_parse_arguments(ARG "" "TIMEOUT;LEAVE_OUT" "OPTIONS;LABELS;ENVIRONMENT;PROPERTIES" ${ARGN})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(STRINGS ${file} lines REGEX "^class |^    def test_")
  foreach(line ${lines})
    if(line MATCHES "^class ([A-Za-z0-9_]+)")
      set(class ${CMAKE_MATCH_1})
    elseif(line MATCHES "def (test_[A-Za-z0-9_]+)")
      set(method ${CMAKE_MATCH_1})
      if(ARG_LEAVE_OUT AND method MATCHES "${ARG_LEAVE_OUT}")
        continue()
      endif()
      string(REGEX REPLACE "^test_" "" words ${method})
      string(REPLACE "_" " " words ${words})
      set(name "${prefix}: ${words}")
      add_test(NAME ${name}
        COMMAND ${Python3_EXECUTABLE} -B ${file} ${ARG_OPTIONS} ${class}.${method})
      set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${ARG_TIMEOUT}
        LABELS "${ARG_LABELS}" ENVIRONMENT "${ARG_ENVIRONMENT}" ${ARG_PROPERTIES})
    endif()
  endforeach()
endfunction()
