#include "worker_runtime/collectives/single_process_group.h"

#include <exception>

#include "worker_runtime/collectives/operation.h"

namespace ddp {
namespace {

class SingleProcessGroup : public ProcessGroup {
 public:
  SingleProcessGroup() : ProcessGroup(0, 1) {}

  std::string_view backend() const override { return "alone"; }
  void abort(std::string_view reason) override { aborted_because_ = reason; }

 private:
  Work issue(Operation operation) override {
    // As in a larger group: after an abort every operation throws.
    if (!aborted_because_.empty()) {
      std::rethrow_exception(aborted(operation, aborted_because_));
    }
    // The sum, minimum, product or mean over one rank is that rank's value: only the operations
    // with two tensors have something to do.
    if (operation.kind == Operation::Kind::all_gather ||
        operation.kind == Operation::Kind::reduce_scatter) {
      operation.output.copy_from(operation.input);
    }
    return {};
  }
  void check_device(const Tensor&) const override {}

  std::string aborted_because_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_alone_process_group() {
  return std::make_unique<SingleProcessGroup>();
}

}  // namespace ddp
