#include "agent/host/compared_variables.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <utility>

namespace ddprun {
namespace {

/// Libraries below a worker read these. Where nodes differ in them, collectives hang or results
/// differ.
constexpr std::string_view kPrefixes[] = {"NCCL_",   "TORCH_", "PYTORCH_",  "GLOO_",  "OMP_",
                                          "KMP_",    "MKL_",   "OPENBLAS_", "CUDNN_", "NVIDIA_TF",
                                          "CUBLAS_", "UCX_",   "FI_"};
constexpr std::string_view kNames[] = {"CUDA_DEVICE_MAX_CONNECTIONS",
                                       "CUDA_DEVICE_ORDER",
                                       "CUDA_LAUNCH_BLOCKING",
                                       "CUDA_MODULE_LOADING",
                                       "DDPRUN_NCCL_LIBRARY",
                                       "LD_LIBRARY_PATH",
                                       "LD_PRELOAD",
                                       "PYTHONHASHSEED",
                                       "PYTHONPATH"};
/// A name of the node itself.
constexpr std::string_view kOfTheNode[] = {"NCCL_HOSTID"};

/// The machine's own facts, the options and one of hashes have a place beside the variables.
constexpr std::size_t kVariablesMax =
    kFactsMax - std::size(kMachineFacts) - std::size(kOptionFacts) - 1;
constexpr std::size_t kHashDigits = 16;

std::string hex(std::uint64_t bits, int digits) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(bits));
  return std::string(text).substr(0, static_cast<std::size_t>(digits));
}

std::uint64_t hash(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string hidden(std::string_view secret) {
  constexpr int kSecretDigits = 8;
  return "<hidden " + hex(hash(secret), kSecretDigits) + ">";
}

}  // namespace

bool is_compared_variable(std::string_view name) {
  const auto is_name = [name](std::string_view one) { return name == one; };
  // Before the prefixes: NCCL_HOSTID is meant to differ.
  if (std::any_of(std::begin(kOfTheNode), std::end(kOfTheNode), is_name)) {
    return false;
  }
  return std::any_of(std::begin(kNames), std::end(kNames), is_name) ||
         std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

bool may_be_secret(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  // Too much is hidden rather than too little: a hash still shows that two nodes differ.
  constexpr std::string_view kSigns[] = {"KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL"};
  return std::any_of(std::begin(kSigns), std::end(kSigns),
                     [&](std::string_view sign) { return upper.find(sign) != std::string::npos; });
}

/// The launcher rejects an --same-env-ignore that can match nothing.
bool names_a_fact(std::string_view pattern) {
  const bool many = pattern.ends_with('*');
  const std::string_view stem = pattern.substr(0, pattern.size() - (many ? 1 : 0));
  const auto named = [&](std::string_view name) {
    return many ? name.starts_with(stem) : name == stem;
  };
  return std::any_of(std::begin(kMachineFacts), std::end(kMachineFacts), named) ||
         std::any_of(std::begin(kOptionFacts), std::end(kOptionFacts), named) ||
         is_compared_variable(stem) ||
         (many && (std::any_of(std::begin(kNames), std::end(kNames), named) ||
                   std::any_of(std::begin(kPrefixes), std::end(kPrefixes), named)));
}

bool is_named_by(std::string_view name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [name](std::string_view pattern) {
    return pattern.ends_with('*') ? name.starts_with(pattern.substr(0, pattern.size() - 1))
                                  : name == pattern;
  });
}

std::string compared_arguments(const std::vector<std::string>& words) {
  std::string text;
  bool secret_next = false;
  for (const std::string_view word : words) {
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const bool is_option = word.starts_with('-');
    text += text.empty() ? "" : " ";
    if (secret_next && !is_option) {
      text += hidden(word);
    } else if (equals != word.npos && may_be_secret(name)) {
      text += std::string(name) + "=" + hidden(word.substr(equals + 1));
    } else {
      text += word;
    }
    // "--token VALUE": the option names a secret, and the next word is it.
    secret_next = is_option && equals == word.npos && may_be_secret(name);
  }
  return text.empty() ? "<none>" : text;
}

std::string bounded_value(const std::string& text) {
  if (text.size() <= kFactValueBytesMax) {
    return text;
  }
  // The hash covers the whole text, so a difference behind the cut shows as well.
  const std::string end = "... " + hex(hash(text), kHashDigits);
  return text.substr(0, kFactValueBytesMax - end.size()) + end;
}

NodeEnvironment compared_variables(const std::vector<std::string>& variables,
                                   const std::vector<std::string>& ignored) {
  NodeEnvironment found;
  for (const std::string& one : variables) {
    const std::size_t equals = one.find('=');
    if (equals > kFactNameBytesMax) {  // also: there is none
      continue;
    }
    std::string name = one.substr(0, equals);
    if (!is_compared_variable(name) || is_named_by(name, ignored)) {
      continue;
    }
    const std::string value = one.substr(equals + 1);
    found.push_back({std::move(name), bounded_value(value)});
    if (may_be_secret(found.back().name)) {
      found.back().value = hidden(value);
    }
  }
  // Sorted, so that equal environments have equal digests whatever the order of their variables.
  const auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
  std::stable_sort(found.begin(), found.end(), by_name);
  // Of a name that is there twice the first counts, as in getenv.
  const auto same = [](const auto& a, const auto& b) { return a.name == b.name; };
  found.erase(std::unique(found.begin(), found.end(), same), found.end());
  // What a node sends is bounded; the rest is compared as one hash.
  if (found.size() > kVariablesMax) {
    const NodeEnvironment rest(found.begin() + kVariablesMax, found.end());
    found.resize(kVariablesMax);
    found.push_back({"VARIABLES BEYOND " + std::to_string(kVariablesMax),
                     "hash " + hex(digest_of(rest).low, kHashDigits)});
  }
  return found;
}

EnvironmentDigest digest_of(const NodeEnvironment& environment) {
  if (environment.empty()) {
    return {};
  }
  std::string bytes;
  for (const EnvironmentFact& fact : environment) {
    bytes.append(fact.name).push_back('\0');  // neither has such a byte
    bytes.append(fact.value).push_back('\0');
  }
  const XXH128_hash_t sum = XXH3_128bits(bytes.data(), bytes.size());
  return {sum.high64, sum.low64 | 1};  // never "none"
}

}  // namespace ddprun
