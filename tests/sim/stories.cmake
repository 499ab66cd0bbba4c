# Stories of many seeds, and all orders of events of few nodes.

# ddprun_add_stories(WHICH...): of these seeds and sizes, on both cores.
function(ddprun_add_stories which)
  set(name "sim: ${which} hold all invariants")
  add_test(NAME ${name} COMMAND simulate ${ARGN} --processes 2)
  set_tests_properties(${name} PROPERTIES TIMEOUT 900 PROCESSORS 8 LABELS sim)
endfunction()

ddprun_add_stories("the first seeds" --seeds ${FIRST_SEEDS} --must-be-varied)
# Always the same: by hand 500,000 have held so far, c10d's are many millions.
if(NOT DDPRUN_SANITIZE)
  ddprun_add_stories("20,000 seeds by a service" --service --first 1000000 --seeds 20000 --nodes-max 60)
endif()
# Other seeds in each run, its first line has the first; and first hosts that host at once (options.h).
# A job of thousands of nodes costs as much as thousands of others: those of the first seeds are enough.
if(NOT DDPRUN_SANITIZE)
  ddprun_add_stories("new seeds" --seeds 200000 --nodes-max 500 --new-seeds --must-be-varied)
  ddprun_add_stories("coordinators without any state" --first 9223372036854775808 --seeds 15000)
endif()

# All orders of events of two and of three nodes (exploration.h).
foreach(nodes 2 3)
  set(name "sim: all orders of ${nodes} nodes hold all invariants")
  add_test(NAME ${name} COMMAND explore --nodes ${nodes} ${EXPLORED})
  set_tests_properties(${name} PROPERTIES TIMEOUT 900 LABELS sim)
endforeach()
