# The sources of the GPU forms, from this folder: for the runtime's GPU library, and, compiled as C++,
# for the stand-in that the tests run them in.
set(DDPRUN_GPU_FORMS adamw_update.cu attention.cu batch_norm.cu class_loss.cu conv2d.cu
  cross_entropy.cu dense.cu embedding.cu layer_norm.cu linear.cu pixels.cu pool2d.cu product.cu
  round.cu cuda/convolution.cc cuda/cublaslt_library.cc cuda/cudnn_descriptor.cc
  cuda/cudnn_library.cc cuda/gpu_forms.cc cuda/gpu_image_forms.cc cuda/matmul.cc cuda/workspace.cc ../linear.cu)
list(TRANSFORM DDPRUN_GPU_FORMS PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
