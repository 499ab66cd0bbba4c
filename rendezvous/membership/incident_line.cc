#include "rendezvous/membership/incident_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string_view>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/error_line.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

/// Of what the worker itself said.
constexpr std::size_t kDetailBytesMax = 300;

/// Shortened between two characters of UTF-8.
std::string cut(std::string text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) {
    return text;
  }
  constexpr std::string_view kDots = "...";
  DDP_CHECK(bytes_max > kDots.size(), "there is room for more than the dots");
  std::size_t size = bytes_max - kDots.size();
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) {
    --size;
  }
  text.resize(size);
  return text.append(kDots);
}

/// What the worker, or its agent, says beyond how it ended. An error file's message comes first;
/// else what stderr says of its end, but of a worker that was killed from outside: that line says
/// nothing of it.
std::string detail_of(const FailureRecord& cause) {
  if (cause.hung) {
    return {};  // the reason has all
  }
  if (cause.own_error || cause.exit.success()) {
    return cause.message;
  }
  const bool exited = cause.exit.kind == ExitStatus::Kind::exited;
  const std::string generic = exited ? "exited with code " : "Signal ";
  if (!cause.error_file_path.empty() && !cause.message.starts_with(generic)) {
    return cause.message;
  }
  const bool by_itself = exited || cause.exit.value == SIGABRT;
  std::string detail(by_itself ? error_line(cause.stderr_tail) : std::string_view());
  if (!cause.note.empty()) {
    detail += (detail.empty() ? "" : "; ") + cause.note;
  }
  return detail;
}

std::string seconds(std::chrono::nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", std::chrono::duration<double>(time).count());
  return text;
}

/// A person wants to read whether to act: how many nodes are missing, or how long the pause is.
std::string next_text(const Aftermath& after) {
  DDP_CHECK(!after.end, "an attempt follows");
  std::string text = fmt::format("attempt {} begins", number(after.next));
  if (after.missing > 0) {
    text += fmt::format(" when {}{}", after.missing,
                        after.missing == 1 ? " more node is here" : " more nodes are here");
  } else if (after.pause.count() > 0) {
    text += " in " + seconds(after.pause);
  }
  text += after.restart
              ? fmt::format(" (restart {} of at most {})", *after.restart, after.max_restarts)
              : " (costs no restart)";
  return text + (after.snapshot ? ", from " + to_text(*after.snapshot) : "");
}

}  // namespace

/// What follows comes last and must not be cut off by a long message, so the message gives way.
std::string incident_line(const Incident& incident, const Aftermath& after) {
  std::string text = incident.reason;
  if (!incident.records.empty() && incident.records.front().blame == Blame::cause) {
    const std::string detail = cut(detail_of(incident.records.front()), kDetailBytesMax);
    text += (detail.empty() ? "" : ": ") + detail;
  }
  constexpr std::string_view kEnds = "the job ends";
  const std::string next = !after.end ? next_text(after)
                           : after.end->find("ends the job") != std::string::npos
                               ? *after.end
                               : *after.end + "; " + std::string(kEnds);
  text = cut(std::move(text), kIncidentLineBytesMax - 2 - std::min<std::size_t>(next.size(), 500));
  text = cut(text + "; " + next, kIncidentLineBytesMax);
  DDP_CHECK(text.size() <= kIncidentLineBytesMax, "a line is bounded");
  return printable(std::move(text));
}

}  // namespace ddprun
