// Why a snapshot that is there cannot be read. Damage makes it worthless for everybody; whatever
// else it is, its files stay.
#pragma once

#include <cstdint>
#include <utility>

#include "rendezvous/base/result.h"

namespace ddp {

enum class Fault : std::uint8_t {
  damaged,     ///< a file is missing, or its bytes are not those that were written
  unreadable,  ///< the system does not give its bytes, perhaps only now: EIO, ESTALE, EMFILE
  forbidden,   ///< the system does not give them to this user
  newer        ///< a later version of ddprun wrote it
};

/// What a failed open(2) or read(2) says of a file that should be there.
Fault fault_of(int errno_value);

struct Unread {
  /// Not explicit: most Errors of the format are damage.
  Unread(ddprun::Error the_error, Fault the_fault = Fault::damaged)
      : error(std::move(the_error)), fault(the_fault) {}
  /// As ddprun::Error() has it.
  Unread() = default;

  ddprun::Error error;
  Fault fault = Fault::damaged;
  std::uint64_t attempt = 0;  ///< that wrote it, where a newer manifest says so; 0: not known
};

template <class T>
using ReadResult = ddprun::Result<T, Unread>;

}  // namespace ddp
