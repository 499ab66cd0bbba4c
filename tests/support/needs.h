// What a test may need and a machine may lack: the test is skipped then.
#pragma once

#include <string>

#include "tests/support/net_namespaces.h"
#include "tests/support/skip.h"

/// Nodes with networks of their own.
#define NEEDS_NAMESPACES()                                                                    \
  do {                                                                                        \
    if (const std::string why = ::ddprun::test::NetNamespaces::unavailable(); !why.empty()) { \
      SKIP_TEST("namespaces", why);                                                           \
    }                                                                                         \
  } while (false)

/// A control group, as ControlGroup makes it.
#define NEEDS_GROUP(group)                          \
  do {                                              \
    if (!(group).why_not().empty()) {               \
      SKIP_TEST((group).need(), (group).why_not()); \
    }                                               \
  } while (false)
