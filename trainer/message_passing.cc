#include "trainer/message_passing.h"

#include <fmt/core.h>

#include <cstdio>
#include <string>

namespace ddp {
namespace {

/// What rank 0 sends to `rank`: not the same for all, so that a mix-up would show.
float greeting(int rank) {
  return 1.0F + static_cast<float>(rank);
}

}  // namespace

void pass_messages(const Context& context) {
  auto& group = context.group();
  const Tensor tensor = Tensor::zeros({1}, DType::f32, context.device());
  if (group.size() == 1) {
    std::printf("Rank 0 is alone: there is no other rank to send to\n");
    return;
  }
  // Blocking calls in rank order, as the demo for torch.distributed has them.
  if (group.rank() == 0) {
    for (int to = 1; to < group.size(); ++to) {
      tensor.fill(greeting(to));
      group.send(tensor, to);
      std::printf("Rank 0 sent data to Rank %d\n", to);
    }
  } else {
    group.recv(tensor, 0);
    if (tensor.item<float>() != greeting(group.rank())) {
      throw Error(fmt::format("rank {} received a tensor that was not sent to it", group.rank()));
    }
    std::printf("Rank %d has received data from rank 0\n", group.rank());
  }
  // No rank leaves while another may still send to it: a connection that closes is an error there.
  group.barrier();
}

}  // namespace ddp
