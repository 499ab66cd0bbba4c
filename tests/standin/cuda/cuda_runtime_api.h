// In place of CUDA's header of this name.
#pragma once

#include "tests/standin/cuda/cuda_runtime.h"
