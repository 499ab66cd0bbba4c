// The error file: what a failed worker leaves for its agent, and the agent for whoever started it.
// JSON as torchrun writes it (torchrun contract, section 6), with fields of our own beside
// torchrun's, which PyTorch's readers ignore.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"

namespace ddprun {

struct ErrorRecord {
  /// "<Type>: <text>", one line as a rule.
  std::string message;
  /// Stack or traceback, may be empty. Torchrun's name for it is py_callstack.
  std::string callstack;
  std::chrono::sys_time<std::chrono::microseconds> time{};
  /// Exit code that the agent adds to the copy it leaves in its own error file.
  std::optional<int> error_code;
  /// Ours: the worker failed because another one was gone, not by a fault of its own. The blame
  /// order uses it to tell a victim from the cause.
  bool peer_lost = false;
  /// Ours ("retry": false in extraInfo, or in our own part): another attempt is of no use.
  bool do_not_retry = false;
};

/// The text of an error file, without a newline at the end.
std::string to_json(const ErrorRecord& record);

/// Reads both of torchrun's forms: the nested one, and {"message": "text", "timestamp": int}.
/// Anything else is an Error that says what is missing.
Result<ErrorRecord> parse_error_record(std::string_view json);

/// The JSON of a worker's error file with "errorCode" added inside the outer message object, as
/// torchrun's agent does for its own error file. The plain form is returned as it is.
Result<std::string> with_error_code(std::string_view json, int error_code);

}  // namespace ddprun
