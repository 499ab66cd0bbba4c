#include "trainer/layers/threads.h"

#if defined(_OPENMP) && __has_include(<omp.h>)
#include <omp.h>
#endif

#include <algorithm>
#include <cstdlib>

namespace ddp {

void share_processors(int local_world_size) {
#if defined(_OPENMP) && __has_include(<omp.h>)
  if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    omp_set_num_threads(std::max(1, omp_get_num_procs() / std::max(1, local_world_size)));
  }
#else
  static_cast<void>(local_world_size);  // without OpenMP there is one thread
#endif
}

}  // namespace ddp
