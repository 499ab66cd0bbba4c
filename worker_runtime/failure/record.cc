#include "ddp/record.h"

#include <cxxabi.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <typeinfo>

#include "ddp/error.h"
#include "rendezvous/contract/environment.h"
#include "rendezvous/contract/error_file.h"
#include "rendezvous/contract/progress_channel.h"
#include "worker_runtime/failure/recording.h"
#include "worker_runtime/failure/signal_record.h"
#include "worker_runtime/failure/throw_trace.h"

namespace ddp {
namespace {

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return text ? text.get() : name;
}

ddprun::ErrorRecord describe(const std::exception& error) {
  ddprun::ErrorRecord record;
  // Ours are sentences for a person. Of another library's the type says whose it is.
  const bool ours = dynamic_cast<const Error*>(&error) != nullptr;
  record.message = (ours ? "" : demangled(typeid(error).name()) + ": ") + error.what();
  // By now the stack is unwound; the one of the throw was noted by __cxa_throw (throw_trace.cc).
  record.callstack = throw_stack(dynamic_cast<const void*>(&error));
  record.peer_lost = dynamic_cast<const PeerLost*>(&error) != nullptr;
  record.do_not_retry = dynamic_cast<const DoNotRetry*>(&error) != nullptr;
  return record;
}

/// In place: the agent reads the file when this process has been reaped, never half of it.
void write_file(const char* path, const std::string& bytes) {
  std::FILE* file = std::fopen(path, "we");
  bool written =
      file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (file != nullptr && std::fclose(file) != 0) {
    written = false;
  }
  if (!written) {
    std::fprintf(stderr, "ddprun worker: cannot write the error file %s: %s\n", path,
                 std::strerror(errno));
  }
}

/// What decides on a restart must not depend on a disk. The channel is opened anew: what init()
/// made of it is gone with its Context, or was never made.
void tell_agent(const ddprun::ErrorRecord& record) {
  using ddprun::ProgressPage;
  const char* path = std::getenv(ddprun::env::kProgressChannel);
  if (path == nullptr || *path == 0) {
    return;
  }
  if (const auto channel = ddprun::ProgressChannel::attach(path)) {
    channel->page().failure_kind = (record.peer_lost ? ProgressPage::kFailedByLostPeer : 0) |
                                   (record.do_not_retry ? ProgressPage::kFailedForGood : 0);
  }
}

void write_record(ddprun::ErrorRecord record) {
  record.time =
      std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
  std::fflush(stdout);  // so that the reason stands below what led to it
  // To stderr as well: where no launcher reads the file, a person reads this.
  const char* rank = std::getenv(ddprun::env::kRank);
  std::fprintf(stderr, "ddprun worker%s%s: %s\n", rank != nullptr ? " of rank " : "",
               rank != nullptr ? rank : "", record.message.c_str());
  tell_agent(record);
  const char* path = std::getenv(ddprun::env::kErrorFile);
  if (path != nullptr && *path != 0) {
    write_file(path, ddprun::to_json(record));
  }
}

/// std::terminate aborts, and SIGABRT does not know why: leave a note for the signal handler.
[[noreturn]] void terminate_with_note() {
  if (const std::exception_ptr current = std::current_exception()) {
    try {
      std::rethrow_exception(current);
    } catch (const std::exception& error) {
      note_for_signal((demangled(typeid(error).name()) + ": " + error.what()).c_str());
    } catch (...) {
      note_for_signal("an exception of unknown type left a thread");
    }
  } else {
    note_for_signal("std::terminate was called");
  }
  std::abort();
}

}  // namespace

int record(const std::function<int()>& main_function) {
  // Ends last: a crash while connections close must not write over the record of what led to it.
  const Recording recording;
  const char* path = std::getenv(ddprun::env::kErrorFile);
  // Before main_function: a crash in its first lines is recorded, too.
  const SignalRecord signals(path != nullptr ? path : "");
  // An exception that leaves a thread, or a noexcept function, never comes to the handlers below.
  const std::terminate_handler terminate_before = std::set_terminate(terminate_with_note);
  trace_throws(true);
  int status = 1;
  try {
    status = main_function();
  } catch (const DoNotRetry& error) {
    write_record(describe(error));
    status = error.exit_status();
  } catch (const std::exception& error) {
    write_record(describe(error));
  } catch (...) {
    // The C++ ABI still has the type of what is no std::exception.
    const std::type_info* type = abi::__cxa_current_exception_type();
    ddprun::ErrorRecord unknown;
    unknown.message =
        "an exception of type " + (type != nullptr ? demangled(type->name()) : std::string("?"));
    write_record(std::move(unknown));
  }
  // Back to what the program had: no tracing of throws, and its own terminate handler.
  trace_throws(false);
  std::set_terminate(terminate_before);
  return status;
}

int record(int argc, char** argv, int (*main_function)(int, char**)) {
  return record([argc, argv, main_function] { return main_function(argc, argv); });
}

void fail_assertion(const char* condition, const char* message, const char* file,
                    int line) noexcept {
  char text[1024];
  std::snprintf(text, sizeof(text), "failed check: %s (%s) at %s:%d", message, condition, file,
                line);
  std::fflush(stdout);
  // abort(3) raises SIGABRT, whose handler puts this note into the record.
  note_for_signal(text);
  std::abort();
}

}  // namespace ddp
