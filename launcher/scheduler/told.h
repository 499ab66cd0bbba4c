// Told: a value that a variable of the environment has, with the variable's name for messages.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/options.h"
#include "rendezvous/base/result.h"

namespace ddprun {

template <class T>
struct Told {
  T value{};
  std::string variable;  ///< where the value is from; several are joined by ", "
};

/// The variable's text without blanks around it; none where it is not set or empty: a variable of
/// an outer job may be left over empty.
std::optional<std::string> told_text(const Environment& environment, const char* name);
/// A whole number from 0; none for all else.
std::optional<int> told_number(const Environment& environment, const char* name);

/// Why the environment of a scheduler or an MPI launcher cannot be that of a job: a variable that
/// holds a number where they document one holds none. None where all do, or are not set: what a
/// broken wrapper left would otherwise be passed over, and each node would be a job of its own.
std::optional<Error> odd_number(const Environment& environment);

/// A port from 20000 to 29999, below those that the kernel gives out, for the job of this number.
/// Jobs that follow each other have different ones, and so have the first steps of one job. Others
/// may have the same (step 1 of job 1 and step 0 of job 102): the second to come is refused, since
/// its id is another.
int derived_port(std::uint64_t job, std::uint64_t part);
/// The same for a job without a number: by a hash (FNV-1a) of its name.
int derived_port(std::string_view job);

}  // namespace ddprun
