if(DDPRUN_SANITIZE)  # minutes of the same code
  return()
endif()

# Copies of membership and node that are broken on purpose: programs that are told which fault to have, and
# have to find it.
set(MEMBERSHIP ${PROJECT_SOURCE_DIR}/rendezvous/membership)
set(NODE ${PROJECT_SOURCE_DIR}/rendezvous/node)
file(GLOB MEMBERSHIP_SOURCES CONFIGURE_DEPENDS ${MEMBERSHIP}/*.cc)
file(GLOB NODE_SOURCES CONFIGURE_DEPENDS ${NODE}/*.cc)
set_property(DIRECTORY APPEND PROPERTY
  CMAKE_CONFIGURE_DEPENDS mutations.txt mutate.py ${MEMBERSHIP_SOURCES} ${NODE_SOURCES})
execute_process(
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/mutate.py
    ${CMAKE_CURRENT_SOURCE_DIR}/mutations.txt ${CMAKE_CURRENT_BINARY_DIR}/mutants ${MEMBERSHIP} ${NODE}
  OUTPUT_VARIABLE MUTANTS OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" MUTANTS "${MUTANTS}")
file(GLOB MUTATED CONFIGURE_DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/mutants/*.cc)
foreach(file ${MUTATED})
  get_filename_component(file ${file} NAME)
  list(REMOVE_ITEM MEMBERSHIP_SOURCES ${MEMBERSHIP}/${file})
  list(REMOVE_ITEM NODE_SOURCES ${NODE}/${file})
endforeach()
add_library(mutated_core OBJECT ${MUTATED} ${MEMBERSHIP_SOURCES} ${NODE_SOURCES})
target_link_libraries(mutated_core PRIVATE ddprun_options ddprun_base ddprun_protocol)
target_compile_options(mutated_core PRIVATE ${DDPRUN_SHELL_OPTIONS})
ddprun_unity(mutated_core 31)
add_executable(simulate_mutants simulate_main.cc ${POOL})
add_executable(explore_mutants explore_main.cc ${POOL})
add_executable(scenario_mutants scenario_test.cc)
foreach(program simulate explore scenario)
  set_target_properties(${program}_mutants PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_link_libraries(${program}_mutants PRIVATE mutated_core ddprun_sim)
endforeach()

function(ddprun_add_mutant name mutant)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name}
    PROPERTIES TIMEOUT 900 PROCESSORS 4 LABELS sim ENVIRONMENT DDPRUN_MUTANT=${mutant})
endfunction()
list(REMOVE_ITEM MUTANTS forgets_a_lease)  # in a story no connection breaks by itself
# What no story of a few ten thousand meets: a scenario is told otherwise.
set(BY_SCENARIOS tells_spares_of_no_world/spare_knows_of_the_job spares_have_no_vote/spare_votes
                 plans_past_a_greeted_node/greeted_survivor)
foreach(pair ${BY_SCENARIOS})
  string(REPLACE "/" ";" pair ${pair})
  list(POP_FRONT pair mutant scenario)
  ddprun_add_mutant("scenario: finds that ${mutant}" ${mutant}
    scenario_mutants ${CMAKE_CURRENT_SOURCE_DIR}/scenarios/${scenario}.txt)
  set_tests_properties("scenario: finds that ${mutant}" PROPERTIES
    PASS_REGULAR_EXPRESSION "and this happens")
  list(REMOVE_ITEM MUTANTS ${mutant})
endforeach()
foreach(mutant ${MUTANTS})
  set(STORIES --seeds 20000)
  if(mutant STREQUAL first_plan_does_not_bind)  # one in some 20,000
    set(STORIES --first 50000 --seeds 20000)
  elseif(mutant STREQUAL successor_repeats_an_attempt)  # one in some 20,000
    set(STORIES --first 19700 --seeds 20000)
  elseif(mutant STREQUAL counts_who_is_bound_to_another)  # seldom; among coordinators without any state
    set(STORIES --first 9223372036854860900 --seeds 40000)
  elseif(mutant STREQUAL service_acknowledges_at_once)  # one in some 200,000
    set(STORIES --service --first 1037800 --seeds 100)
  elseif(mutant STREQUAL service_all_before_decide)  # one in some 10,000
    set(STORIES --service --first 0 --seeds 2000)
  elseif(mutant MATCHES "^service_")
    set(STORIES --service --seeds 7000)
  endif()
  ddprun_add_mutant("sim: finds that ${mutant}" ${mutant} simulate_mutants ${STORIES} --must-fail 20)
endforeach()
# What shows in two or three nodes, with the few faults that are explored.
foreach(pair 2/attempt_is_not_counted 2/forgets_a_lease 3/votes_twice 3/successor_does_not_wait
             3/starts_before_all_stopped)
  string(REPLACE "/" ";" pair ${pair})
  list(POP_FRONT pair nodes mutant)
  ddprun_add_mutant("sim: explores that ${mutant}" ${mutant} explore_mutants --nodes ${nodes} --must-fail)
endforeach()
