// PseudoTerminal: a terminal of a worker's own, whose other end is the agent's. So isatty() stays
// true for it, and what it writes passes through the agent.
#pragma once

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"

namespace ddprun {

struct PseudoTerminal {
  Fd ours;     ///< not blocking; read() ends with EIO when the last writer has closed
  Fd workers;  ///< to be opened by the worker, through its name under /proc
};

/// With the size and attributes of the terminal `like`, except that bytes come out as they went in
/// (no OPOST): the real terminal turns "\n" into "\r\n", and would do so twice. It becomes nobody's
/// controlling terminal. Fails where devpts is not mounted or has no room.
Result<PseudoTerminal> open_pseudo_terminal(int like);

/// Gives the pseudo-terminal `ours` the size of the terminal `like`.
void copy_window_size(int like, int ours);

}  // namespace ddprun
