// Arithmetic that the CPU and the GPU share: it is written once, and tested on the CPU.
#pragma once

#ifdef __CUDACC__
#define DDP_HOST_DEVICE __host__ __device__
#else
#define DDP_HOST_DEVICE
#endif

// Before a function of arithmetic in a header. Always inline: it is compiled for several levels of
// x86-64 (trainer/layers/level.h), and a copy that the linker kept might be one that this processor
// cannot run.
#define DDP_ARITHMETIC DDP_HOST_DEVICE inline __attribute__((always_inline))
