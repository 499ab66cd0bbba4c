#include "launcher/hosts/passed_environment.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "launcher/list_options.h"
#include "launcher/option_table.h"
#include "rendezvous/base/check.h"
#include "rendezvous/contract/environment.h"

namespace ddprun {
namespace {

constexpr std::array<std::string_view, 29> kPassed = {
    // What is found where: programs, libraries, Python and its packages.
    "PATH", "LD_LIBRARY_PATH", "PYTHON*", "VIRTUAL_ENV", "CONDA_PREFIX", "LANG", "LC_*",
    // How libraries communicate and compute.
    "NCCL_*", "GLOO_*", "UCX_*", "FI_*", "CUDA_*", "OMP_*", "GOMP_*", "KMP_*", "MKL_*",
    "OPENBLAS_*", "DNNL_*", "ONEDNN_*", "TORCH_*", "TORCHINDUCTOR_*", "PYTORCH_*", "TRITON_*",
    // What training programs ask for.
    "HF_*", "TRANSFORMERS_*", "TOKENIZERS_*", "WANDB_*",
    // ddprun's own; the PET_ variables travel as options.
    "LOGLEVEL", "DDPRUN_*"};
/// GPUs of this host say nothing of another's, nor does the place of its cloud's metadata service.
constexpr std::array<std::string_view, 2> kNotUnasked = {"CUDA_VISIBLE_DEVICES",
                                                         env::kAzureMetadataHost};

std::string_view name_of(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

/// A star stands at the end alone (is_pattern).
bool matches(std::string_view pattern, std::string_view name) {
  DDP_CHECK(!pattern.empty(), "a pattern names something");
  return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1))
                                : name == pattern;
}

template <class Patterns>
bool matches_any(const Patterns& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [name](const auto& pattern) { return matches(pattern, name); });
}

/// POSIX, 8.1: letters, digits and underscores. A star by itself would pass everything on, with
/// what a session has about its own host and terminal.
bool is_pattern(std::string_view text) {
  const std::string_view name = text.ends_with('*') ? text.substr(0, text.size() - 1) : text;
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

/// An agent that read them would start all hosts again.
bool starts_hosts(std::string_view name) {
  return std::any_of(option_rows().begin(), option_rows().end(), [name](const OptionRow& row) {
    return row.group == OptionGroup::hosts && variable_name(row.name) == name;
  });
}

}  // namespace

std::span<const std::string_view> passed_names() {
  return kPassed;
}

Result<std::vector<std::string>> passed_environment(std::span<const char* const> environment,
                                                    const std::vector<std::string>& more,
                                                    const std::string& where) {
  // A misspelt name is found here, and not by a job that runs without the variable.
  for (const std::string& pattern : more) {
    if (!is_pattern(pattern)) {
      return Error{in_quotes(pattern) + " is no name of a variable", where,
                   "give names such as MY_VARIABLE or MY_*"};
    }
    const bool is_set =
        std::any_of(environment.begin(), environment.end(),
                    [&](const char* variable) { return matches(pattern, name_of(variable)); });
    if (!is_set && !pattern.ends_with('*')) {
      return Error{in_quotes(pattern) + " is not set here", where, "set it, or leave it out"};
    }
  }
  std::vector<std::string> passed;
  for (const std::string_view variable : environment) {
    const std::string_view name = name_of(variable);
    const bool unasked = !matches_any(kNotUnasked, name) && matches_any(kPassed, name);
    if (!name.empty() && (unasked || matches_any(more, name)) && !starts_hosts(name)) {
      passed.emplace_back(variable);
    }
  }
  DDP_CHECK(passed.size() <= environment.size(), "no variable is passed twice");
  return passed;
}

std::vector<std::string> merged_environment(std::span<const char* const> own,
                                            std::span<const std::string> passed) {
  // Of two variables with one name getenv(3) finds the first, and a shell may find the other.
  std::vector<std::string> merged(passed.begin(), passed.end());
  std::map<std::string_view, bool> is_passed;
  for (const std::string& variable : passed) {
    DDP_CHECK(variable.find('=') != std::string::npos, "a variable has a value");
    is_passed[name_of(variable)] = true;
  }
  for (const std::string_view variable : own) {
    const std::string_view name = name_of(variable);
    if (!is_passed.contains(name) && !starts_hosts(name)) {
      merged.emplace_back(variable);
    }
  }
  return merged;
}

}  // namespace ddprun
