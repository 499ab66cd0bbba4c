// Standard streams that a parent has closed.
#pragma once

namespace ddprun {

/// Opens /dev/null in the place of each standard stream that is closed (`2>&-`). Otherwise the next
/// descriptor that is opened gets its number, and lines go into a socket or a snapshot.
void fill_standard_streams();

}  // namespace ddprun
