# The sources of the GPU forms, from this folder: for the runtime's GPU library, and, compiled as C++,
# for the stand-in that the tests run them in.
set(DDPRUN_GPU_FORMS adamw_update.cu cross_entropy.cu embedding.cu layer_norm.cu
  cuda/gpu_forms.cc cuda/workspace.cc ../linear.cu)
list(TRANSFORM DDPRUN_GPU_FORMS PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
