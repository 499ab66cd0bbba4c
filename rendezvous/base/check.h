// DDP_CHECK: a condition that holds unless ddprun itself has a bug. On in every build: it prints
// where and what, then aborts; an agent that aborts takes its workers with it, so nothing is left
// half alive. Never use it for what a user, a peer or the machine can cause: that is an Error.
#pragma once

#include <cstdio>
#include <cstdlib>

#define DDP_CHECK(condition, message)                                                     \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "ddprun bug: %s:%d: %s: %s\n", __FILE__, __LINE__, #condition, \
                   static_cast<const char*>(message));                                    \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)
