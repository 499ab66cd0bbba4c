#include "launcher/rdzv_conf.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "launcher/python_numbers.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

using Entries = std::map<std::string, std::string, std::less<>>;

/// The text without blanks and without a pair of quotes around it. Job scripts that start programs
/// without a shell (subprocess lists, YAML) often have quotes for one: --rdzv-conf='timeout=5'.
std::string_view unquoted(std::string_view text) {
  text = trimmed(text);
  while (text.size() >= 2 && (text.front() == '\'' || text.front() == '"') &&
         text.find(text.front(), 1) == text.size() - 1) {
    text = trimmed(text.substr(1, text.size() - 2));
  }
  return text;
}

/// torchrun's _parse_rendezvous_config: the later of two equal keys counts, and each key needs a
/// value that is not empty.
Result<Entries> split(std::string_view text, const std::string& where) {
  Entries entries;
  text = unquoted(text);
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view entry = unquoted(text.substr(0, comma));
    const auto equals = entry.find('=');
    const std::string_view key = unquoted(entry.substr(0, equals));
    const std::string_view value =
        equals == std::string_view::npos ? "" : unquoted(entry.substr(equals + 1));
    // A comma at the very end is followed by an empty entry, as in Python.
    const bool dangling = comma != std::string_view::npos && comma + 1 == text.size();
    if (key.empty() || dangling) {
      return Error{"an entry has no key", where,
                   "write it as KEY=VALUE,..., for example join_timeout=300"};
    }
    if (value.empty()) {
      return Error{"key '" + std::string(key) + "' has no value", where,
                   "write " + std::string(key) + "=VALUE"};
    }
    entries[std::string(key)] = value;
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return entries;
}

/// None when the key is not there; a whole number above 0 else.
Result<std::optional<int>> positive(const Entries& entries, std::string_view key,
                                    const std::string& where) {
  const auto found = entries.find(key);
  if (found == entries.end()) {
    return std::optional<int>();
  }
  const auto number = read_capped_int(found->second);
  if (!number || *number <= 0) {
    return Error{std::string(key) + "='" + found->second + "' is not a whole number above 0", where,
                 "write for example " + std::string(key) + "=30"};
  }
  return number;
}

/// The words of RendezvousParameters.get_as_bool, in any case.
Result<std::optional<bool>> yes_or_no(const Entries& entries, std::string_view key,
                                      const std::string& where) {
  const auto found = entries.find(key);
  if (found == entries.end()) {
    return std::optional<bool>();
  }
  std::string text = found->second;
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::array kYes{"1", "true", "t", "yes", "y"};
  constexpr std::array kNo{"0", "false", "f", "no", "n"};
  if (std::find(kYes.begin(), kYes.end(), text) != kYes.end()) {
    return std::optional<bool>(true);
  }
  if (std::find(kNo.begin(), kNo.end(), text) != kNo.end()) {
    return std::optional<bool>(false);
  }
  return Error{std::string(key) + "='" + found->second + "' is neither true nor false", where,
               "write " + std::string(key) + "=true or " + std::string(key) + "=false"};
}

/// How a service is spoken to. torchrun's for etcd, and the files of certificates, which nothing
/// reads without TLS. They have other names with etcd-v2.
Result<void> read_protocol(const Entries& entries, const std::string& where, RdzvConf& conf) {
  // Where both names are given, the one of `etcd` counts: it is the backend that people name.
  const auto either = [&entries](const char* name, const char* other) {
    const auto found = entries.find(name);
    const auto second = found != entries.end() ? found : entries.find(other);
    return second != entries.end() ? second->second : std::string();
  };
  const std::string protocol = either("protocol", "protocol");
  if (!protocol.empty() && protocol != "http" && protocol != "https") {
    return Error{"protocol='" + protocol + "' is neither http nor https", where,
                 "write protocol=https where the service wants TLS"};
  }
  // Whether one was given matters to who has files of certificates and speaks plain text.
  if (!protocol.empty()) {
    conf.https = protocol == "https";
  }
  conf.name_space = either("namespace", "namespace");
  conf.token_file = either("token_file", "token_file");
  conf.certificates = {either("cacert", "ca_cert"), either("cert", "ssl_cert"),
                       either("key", "ssl_cert_key")};
  if (conf.certificates.certificate.empty() && !conf.certificates.key.empty()) {
    return Error{"key= is given without cert=", where, "give the certificate, too: cert=FILE"};
  }
  // One file may hold both, and torchrun takes it so.
  if (conf.certificates.key.empty()) {
    conf.certificates.key = conf.certificates.certificate;
  }
  return {};
}

}  // namespace

Result<RdzvConf> parse_rdzv_conf(std::string_view text, const std::string& where) {
  auto entries = split(text, where);
  if (!entries) {
    return entries.error();
  }
  RdzvConf conf;
  using Seconds = std::optional<std::chrono::seconds> RdzvConf::*;
  const std::pair<const char*, Seconds> durations[] = {
      {"timeout", &RdzvConf::timeout},
      {"join_timeout", &RdzvConf::join_timeout},
      {"last_call_timeout", &RdzvConf::last_call_timeout},
      {"keep_alive_interval", &RdzvConf::keep_alive_interval},
      // These three time single requests to torchrun's store. ddprun has no such requests, but a
      // bad value is an error in both.
      {"close_timeout", nullptr},
      {"heartbeat_timeout", nullptr},
      {"read_timeout", nullptr},
  };
  for (const auto& [key, field] : durations) {
    const auto seconds = positive(*entries, key, where);
    if (!seconds) {
      return seconds.error();
    }
    if (field != nullptr && *seconds) {
      conf.*field = std::min(std::chrono::seconds(**seconds), kTimeMax);
    }
  }
  const auto attempts = positive(*entries, "keep_alive_max_attempt", where);
  if (!attempts) {
    return attempts.error();
  }
  conf.keep_alive_max_attempt = *attempts;
  const auto is_host = yes_or_no(*entries, "is_host", where);
  if (!is_host) {
    return is_host.error();
  }
  conf.is_host = *is_host;
  if (const auto read = read_protocol(*entries, where, conf); !read) {
    return read.error();
  }
  const auto store = entries->find("store_type");
  if (store != entries->end() && store->second != "tcp") {
    // With `file` torchrun's nodes meet through a file, and the endpoint is its path.
    return Error{"store_type='" + store->second + "' is not something ddprun can do", where,
                 "leave it out: nodes meet over TCP"};
  }
  return conf;
}

}  // namespace ddprun
