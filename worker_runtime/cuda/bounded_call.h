// A call that may never return, and the end of a process in which one did not.
#pragma once

#include <chrono>
#include <functional>

namespace ddp {

/// Runs `call`, which must not throw, on a thread of its own. False when it has not returned within
/// `limit`: the thread then stays behind, so what `call` uses must live as long as the process.
bool returns_within(std::chrono::milliseconds limit, std::function<void()> call);

/// From now on exit() and the end of main() end the process at once, with their status, after
/// stdio's buffers are written: exit handlers of libraries that such a call hangs in would wait for
/// it. Once; later calls do nothing.
void end_without_exit_handlers();

}  // namespace ddp
