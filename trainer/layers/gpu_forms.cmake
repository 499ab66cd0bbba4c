# The sources of the GPU forms, from this folder: for the runtime's GPU library, and, compiled as C++,
# for the stand-in that the tests run them in.
set(DDPRUN_GPU_FORMS adamw_update.cu attention.cu cross_entropy.cu embedding.cu layer_norm.cu
  linear.cu product.cu round.cu cuda/cublaslt_library.cc cuda/gpu_forms.cc cuda/matmul.cc cuda/workspace.cc
  ../linear.cu)
list(TRANSFORM DDPRUN_GPU_FORMS PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
