// How the threads of GCC's OpenMP library wait for each other. It reads that once, when it is
// loaded, so a program that wants it otherwise has to begin anew.
#pragma once

namespace ddp {

/// Runs this program once more, in the same process, with GOMP_SPINCOUNT set, unless the user has
/// set it or OMP_WAIT_POLICY. By default a thread spins for milliseconds before it sleeps. On a
/// machine with other work it then takes the processor from the very thread that it waits for: a
/// step took ten times as long and more. Returns where there is nothing to do, and where that
/// cannot be done. SIGTERM and SIGUSR1 are blocked in the new run: it calls
/// leave_until_preemption() (ddp/preemption.h). To be called before any thread is there.
void spin_briefly(char* const* argv);

}  // namespace ddp
