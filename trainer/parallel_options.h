// ParallelOptions: how a training is shared by its ranks, the same words for every model.
#pragma once

#include "ddp/distributed_data_parallel.h"
#include "trainer/balance.h"

namespace CLI {
class App;
}

namespace ddp {

struct ParallelOptions {
  Compression compression = Compression::none;
  bool zero = false;  ///< the optimizer's state is split over the ranks
  BalanceChoice balance;
};

/// Adds the options that fill it.
void add_parallel(CLI::App& app, ParallelOptions& options);

}  // namespace ddp
