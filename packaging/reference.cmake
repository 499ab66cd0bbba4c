# Man pages and completions: those of ddprun and train are made from their own options.
find_package(CLI11 REQUIRED)
find_program(GZIP gzip REQUIRED)

# SOURCE_DATE_EPOCH counts, so a build can be repeated.
string(TIMESTAMP date "%Y-%m-%d" UTC)
# Named without the date, so that a build of the next day makes nothing again.
add_custom_command(OUTPUT ddprun.1 ddprun.1.gz
  COMMAND ddprun_man_page ${PROJECT_VERSION} ${date} > ddprun.1
  COMMAND ${GZIP} -9nk -f ddprun.1
  DEPENDS ddprun_man_page VERBATIM)
configure_file(ddpctl.1.in ddpctl.1 @ONLY)
configure_file(train.1.in train.1.head @ONLY)
configure_file(train.1.end train.1.end COPYONLY)
# It names no date and no version: train.1.head does.
add_executable(train_reference train_reference.cc)
set_target_properties(train_reference PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
target_link_libraries(train_reference
  PRIVATE ddprun_trainer ddprun_man_page_lib ddprun_launcher_lib CLI11::CLI11)
add_custom_command(OUTPUT train.1
  COMMAND train_reference man > train.1.options
  COMMAND ${CMAKE_COMMAND} -E cat train.1.head train.1.options train.1.end > train.1
  DEPENDS train_reference ${CMAKE_CURRENT_BINARY_DIR}/train.1.head ${CMAKE_CURRENT_BINARY_DIR}/train.1.end
  VERBATIM)
foreach(program ddpctl train)
  add_custom_command(OUTPUT ${program}.1.gz
    COMMAND ${GZIP} -9nk -f ${program}.1 DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/${program}.1 VERBATIM)
endforeach()
set(completions)
foreach(shell bash zsh fish)
  add_custom_command(OUTPUT ddprun.${shell}
    COMMAND ddprun --print-completion ${shell} > ddprun.${shell} DEPENDS ddprun VERBATIM)
  add_custom_command(OUTPUT train.${shell}
    COMMAND train_reference ${shell} > train.${shell} DEPENDS train_reference VERBATIM)
  list(APPEND completions ddprun.${shell} train.${shell})
endforeach()
add_custom_target(package_files ALL DEPENDS ddprun.1 ddpctl.1.gz train.1.gz ${completions})
