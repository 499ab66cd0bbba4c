// SKIP_TEST: a test case that cannot run on this machine ends as skipped in ctest's words, with its
// reason, and is never counted as passed. tests/support/skip.py is the same for Python.
#pragma once

#include <string>

namespace ddprun::test {

/// Prints `skipped: needs NEED: REASON` on stdout and makes this program exit with 77 (ctest's
/// SKIP_RETURN_CODE) unless a test case of it fails. `need` is one word: root, namespaces, cgroup,
/// mount, mpirun, pytorch, data, debian, network, descriptors; or gpu, cuda, kernel, program,
/// which a machine of CI may lack (scripts/test_table.py).
void skip(const std::string& need, const std::string& reason);

}  // namespace ddprun::test

/// Ends the test case that it stands in; in a function that returns nothing, only that function.
#define SKIP_TEST(need, reason)         \
  do {                                  \
    ::ddprun::test::skip(need, reason); \
    return;                             \
  } while (false)
