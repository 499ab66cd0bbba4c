#include "ddp/error.h"

namespace ddp {

// Defined here so that each type has one home in the shared library: an exception thrown inside it
// is caught by type outside.
Error::~Error() = default;
InvalidArgument::~InvalidArgument() = default;
DoNotRetry::DoNotRetry(const std::string& what, int exit_status)
    : Error(what), exit_status_(exit_status >= 1 && exit_status <= 255 ? exit_status : 1) {}
DoNotRetry::~DoNotRetry() = default;
StartError::~StartError() = default;
DeviceError::~DeviceError() = default;
OperationError::~OperationError() = default;
PeerLost::~PeerLost() = default;
Timeout::~Timeout() = default;
Aborted::~Aborted() = default;

OperationError::OperationError(const std::string& what, std::string operation,
                               std::uint64_t sequence, std::optional<int> peer)
    : Error(what), operation_(std::move(operation)), sequence_(sequence), peer_(peer) {}

}  // namespace ddp
