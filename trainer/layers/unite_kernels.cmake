# Most kernels as one source in DDPRUN_GPU_FORMS: nvcc reads CUDA's headers and C++'s anew for each
# source and processor, and cmake 3.25 unites no CUDA. The largest stay alone, for other cores.
if(DDPRUN_UNITY)
  set(united ${DDPRUN_GPU_FORMS})
  list(FILTER united INCLUDE REGEX "\\.cu$")
  list(FILTER united EXCLUDE REGEX "/(attention|batch_norm|layer_norm)\\.cu$")
  list(REMOVE_ITEM DDPRUN_GPU_FORMS ${united})
  list(TRANSFORM united REPLACE "(.+)" "#include \"\\1\"\n" OUTPUT_VARIABLE includes)
  list(JOIN includes "" includes)
  file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/united.cu CONTENT "${includes}")
  list(APPEND DDPRUN_GPU_FORMS ${CMAKE_CURRENT_BINARY_DIR}/united.cu)
endif()
