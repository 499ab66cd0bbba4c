#include "launcher/hosts/host_entries.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <utility>

#include "launcher/list_options.h"
#include "launcher/scheduler/host_list.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"
#include "rendezvous/membership/node_description.h"

namespace ddprun {
namespace {

/// Editors of Windows write it in front of UTF-8; it is no part of a host's name.
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// RFC 1035 2.3.4: no longer name can be resolved. Of users the same.
constexpr std::size_t kNameBytesMax = 253;
/// Of a line that is shown in a message.
constexpr std::size_t kShownBytesMax = 200;

std::string shown(std::string_view text) {
  return in_quotes(text.size() <= kShownBytesMax
                       ? std::string(text)
                       : std::string(text.substr(0, kShownBytesMax)) + "...");
}

/// ssh puts the name into commands of its own (ProxyCommand's %r), which a shell reads.
bool is_user_name(std::string_view text) {
  return !text.empty() && text.size() <= kNameBytesMax && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == '+' || c == '@';
         });
}

/// With a zone, as in fe80::1%eth0.
bool is_ipv6(std::string_view text) {
  const auto percent = text.find('%');
  const std::string address(text.substr(0, percent));
  in6_addr ignored{};
  return ::inet_pton(AF_INET6, address.c_str(), &ignored) == 1 &&
         (percent == std::string_view::npos ||
          (percent + 1 < text.size() && is_host_name(text.substr(percent + 1))));
}

std::optional<int> worker_count(std::string_view text) {
  const auto count = parse_number<int>(text);
  return count && 1 <= *count && *count <= kLocalWorldSizeMax ? count : std::nullopt;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

/// Reads one entry after the other into one list.
class Entries {
 public:
  /// `text` is all of the entry, for messages; `word` its [user@]host[:N].
  Result<void> add(std::string_view word, std::string_view text, const std::string& place) {
    DDP_CHECK(!place.empty(), "an entry has a place");
    // From the end: a user may be name@realm.
    HostEntry entry{.place = place};
    const auto at = word.rfind('@');
    if (at != std::string_view::npos) {
      entry.user = word.substr(0, at);
      if (!is_user_name(entry.user)) {
        return Error{shown(entry.user) + " in " + shown(text) + " is no user", place,
                     "write [user@]host or [user@]host:WORKERS"};
      }
      word.remove_prefix(at + 1);
    }
    std::string_view count;
    if (const auto read = host_of(word, entry, count); !read) {
      return Error{read.error().what + " in " + shown(text), place, read.error().todo};
    }
    if (count.data() != nullptr) {
      if (const auto done = set_workers(entry, count, text); !done) {
        return done.error();
      }
    }
    DDP_CHECK(!entry.host.empty(), "an entry that was read names a host");
    // By the name alone: two users on one host would still share its GPUs. Whether two names mean
    // one host is the resolver's business, and it is asked on the hosts.
    const auto [before, is_new] = places_.emplace(lower(entry.host), place);
    if (!is_new) {
      return Error{entry.host + " is named twice, here and at " + before->second, place,
                   "name each host once, with all of its workers"};
    }
    if (result_.hosts.size() >= static_cast<std::size_t>(kNodesMax)) {
      return Error{"there are more than " + std::to_string(kNodesMax) + " hosts", place,
                   "a job cannot have more nodes"};
    }
    result_.hosts.push_back(std::move(entry));
    return {};
  }

  static Result<void> set_workers(HostEntry& entry, std::string_view count, std::string_view text) {
    const auto number = worker_count(count);
    if (!number) {
      return Error{shown(count) + " in " + shown(text) + " is not a number of workers", entry.place,
                   "give a number from 1 to " + std::to_string(kLocalWorldSizeMax)};
    }
    if (entry.workers != 0) {
      return Error{"the workers are given twice in " + shown(text), entry.place,
                   "write host:N or host slots=N"};
    }
    entry.workers = *number;
    return {};
  }

  HostEntry& last() {
    DDP_CHECK(!result_.hosts.empty(), "an entry was added");
    return result_.hosts.back();
  }
  void pass_over(const std::string& clause) {
    if (result_.passed_over.empty()) {
      result_.passed_over = clause;
    }
  }

  Result<HostEntries> take(const std::string& where, const std::string& todo) {
    if (result_.hosts.empty()) {
      return Error{"no host is named", where, todo};
    }
    return std::move(result_);
  }

 private:
  /// Splits `word` into the entry's host and what follows a colon; `count` stays null without one.
  static Result<void> host_of(std::string_view word, HostEntry& entry, std::string_view& count) {
    if (word.starts_with('[')) {
      const auto end = word.find(']');
      const std::string_view rest = end == std::string_view::npos ? word : word.substr(end + 1);
      entry.host = word.substr(1, end == std::string_view::npos ? end : end - 1);
      if (end == std::string_view::npos || !is_ipv6(entry.host) ||
          !(rest.empty() || rest.front() == ':')) {
        return Error{shown(word) + " is no IPv6 address", "", "write for example [fe80::1]:4"};
      }
      if (!rest.empty()) {
        count = rest.substr(1);
      }
      return {};
    }
    // fe80::1:4 could be a host with a number, or an address.
    const auto colon = word.find(':');
    if (colon != std::string_view::npos && word.find(':', colon + 1) != std::string_view::npos) {
      return Error{shown(word) + " has several colons", "",
                   "write an IPv6 address in brackets, as in [fe80::1]:4"};
    }
    entry.host = word.substr(0, colon);
    if (entry.host.empty() || entry.host.size() > kNameBytesMax || entry.host.front() == '-' ||
        !is_host_name(entry.host)) {
      return Error{shown(entry.host) + " is no host", "",
                   "write a name or an address, as in node1 or node1:4"};
    }
    if (colon != std::string_view::npos) {
      count = word.substr(colon + 1);
    }
    return {};
  }

  HostEntries result_;
  std::map<std::string, std::string> places_;
};

/// `slots=4`, `max_slots=8` and `max-slots=8` behind the host.
Result<void> read_settings(std::string_view line, Entries& entries) {
  const auto words = words_of(line, " \t");
  DDP_CHECK(!words.empty(), "a line that is read has a word");
  std::optional<int> most;
  for (auto word = words.begin() + 1; word != words.end(); ++word) {
    const auto equals = word->find('=');
    const std::string_view name = word->substr(0, equals);
    const bool is_most = name == "max_slots" || name == "max-slots";
    HostEntry& entry = entries.last();
    if (equals == std::string_view::npos || !(is_most || name == "slots")) {
      return Error{shown(*word) + " in " + shown(line) + " is not known here", entry.place,
                   "write host, host:N or host slots=N"};
    }
    const std::string_view value = word->substr(equals + 1);
    if (!is_most) {
      if (const auto done = Entries::set_workers(entry, value, line); !done) {
        return done.error();
      }
      continue;
    }
    most = worker_count(value);
    if (!most) {
      return Error{shown(value) + " in " + shown(line) + " is not a number of workers", entry.place,
                   "give a number, or leave it out"};
    }
    entries.pass_over(entry.place + ": " + std::string(name) +
                      " has no effect: a host has as many workers as its slots");
  }
  // Open MPI would start as many as that on request. ddprun starts the slots, so a bound below them
  // contradicts itself.
  const HostEntry& entry = entries.last();
  if (most && *most < entry.workers) {
    return Error{"the most slots are fewer than the slots in " + shown(line), entry.place,
                 "leave max_slots out"};
  }
  return {};
}

}  // namespace

Result<HostEntries> parse_hosts(std::string_view text, const std::string& where) {
  Entries entries;
  int number = 0;
  // Entries are counted from 1, as a person counts them.
  for (const std::string_view word : parts_of(text, ',')) {
    const std::string place = where + ", entry " + std::to_string(++number);
    // Most often a variable that is not set: a host that it stands for is missing.
    if (word.empty()) {
      return Error{"it is empty in " + shown(text), place, "name a host between the commas"};
    }
    if (const auto added = entries.add(word, word, place); !added) {
      return added.error();
    }
  }
  return entries.take(where, "write for example node1:4,node2:4");
}

Result<HostEntries> parse_hostfile(std::string_view text, const std::string& path) {
  Entries entries;
  int number = 0;
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    // No host, number or setting has a # in it, so no quote can hide one. Files that were written
    // on Windows have \r at their ends, which is white space.
    const std::string_view said = trimmed(line.substr(0, line.find('#')));
    const auto words = words_of(said, " \t");
    if (words.empty()) {
      continue;
    }
    const std::string place = path + ", line " + std::to_string(number);
    if (const auto added = entries.add(words.front(), said, place); !added) {
      return added.error();
    }
    if (const auto read = read_settings(said, entries); !read) {
      return read.error();
    }
  }
  return entries.take(path, "write one host a line, as in node1 slots=4");
}

}  // namespace ddprun
