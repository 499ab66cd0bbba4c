// DDP_VECTOR_CODE: before a function whose loops are to use the widest vectors of the processor
// that it runs on. The compiler makes a version for each and picks one when the program is loaded,
// so that one binary serves all. Results of different processors may differ in their last bits.
//
// Sanitizers and clang instrument or resolve such functions too early; they get the plain form.
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define DDP_VECTOR_CODE \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))
#else
#define DDP_VECTOR_CODE
#endif
