// NoticeSource: one of those that may announce that this machine goes: a cloud's metadata service,
// or a file that somebody makes (--preempt-notice). Plain values.
#pragma once

#include <cstdint>
#include <string>

#include "rendezvous/base/endpoint.h"

namespace ddprun {

enum class NoticeKind : std::uint8_t { aws, gcp, azure, file };

struct NoticeSource {
  NoticeKind kind = NoticeKind::file;
  Endpoint server = {};   ///< of a metadata service; plain HTTP
  std::string path = {};  ///< of the file

  friend bool operator==(const NoticeSource&, const NoticeSource&) = default;
};

/// What an announcement leads to.
enum class NoticeResponse : std::uint8_t {
  save,   ///< the whole job saves and ends, to go on another time
  leave,  ///< this node leaves in order, and the others go on
};

}  // namespace ddprun
