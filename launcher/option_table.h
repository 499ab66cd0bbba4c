// Option table: every option of ddprun, one row each. From a row follow both spellings
// (--max-restarts and --max_restarts), the environment variable that replaces the default
// (PET_MAX_RESTARTS), the type, and the help text.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "launcher/options.h"

namespace ddprun {

enum class OptionGroup : unsigned char {
  job,
  rendezvous,
  hosts,
  program,
  output,
  ending,
  other,
  accepted
};

/// Which Options field a row fills; its type is the option's type.
using OptionField = std::variant<std::string Options::*, std::optional<std::string> Options::*,
                                 int Options::*, std::optional<int> Options::*, double Options::*,
                                 std::optional<double> Options::*, bool Options::*>;

struct OptionRow {
  std::string_view name;  ///< "max-restarts": without dashes in front
  char letter = 0;        ///< 'r' of -r; 0 when there is none
  OptionField field;
  std::string_view value_name{};  ///< what the help calls its value; empty for a flag
  OptionGroup group;
  /// The PET_ variable is read. (--logs-specs and --numa-binding have none in torchrun.)
  bool has_variable = true;
  /// Not an option of torchrun. Such a row never makes a prefix ambiguous that torchrun takes.
  bool ours = false;
  /// A list: given several times, the lists add up. Of other options the last one counts.
  bool adds_up = false;
  /// A value that names nothing is a mistake. torchrun takes an empty one for most of its own.
  bool must_name = false;
  std::string_view choices{};  ///< "spawn|fork|forkserver"; empty when any value will do
  std::string_view help;
};

std::span<const OptionRow> option_rows();

/// A flag takes no value on the command line.
bool is_flag(const OptionRow& row);
/// "max-restarts" -> "PET_MAX_RESTARTS".
std::string variable_name(std::string_view name);
/// The default as text; empty for flags and for options that differ when they are not given.
std::string default_text(const OptionRow& row);

}  // namespace ddprun
