// The code that oneDNN writes for matrix products of f32, when the first of them is asked for.
#pragma once

namespace ddp {

/// Has it written now. It does not look whether it got memory for it: where there is too little,
/// the first product would end the process by SIGSEGV. Throws std::bad_alloc then. To be called
/// once the number of threads is known, and before a model takes its memory.
void make_product_kernels();

}  // namespace ddp
