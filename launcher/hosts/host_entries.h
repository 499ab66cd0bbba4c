// HostEntries: the hosts that a user names, in --hosts or in a file of one of the usual formats.
// Pure: nothing is resolved, and the file's text comes from the caller.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"

namespace ddprun {

struct HostEntry {
  std::string host{};   ///< a name or an address, without brackets
  std::string user{};   ///< of user@host; empty: ssh decides
  int workers = 0;      ///< of :N or slots=N; 0: --nproc-per-node decides
  std::string place{};  ///< for messages: "--hosts, entry 2" or "hosts.txt, line 7"

  /// As ssh takes it.
  [[nodiscard]] std::string target() const { return user.empty() ? host : user + "@" + host; }
};

struct HostEntries {
  std::vector<HostEntry> hosts;  ///< at least one, in the order of the text; none is there twice
  /// What was read and has no effect, one clause for all of it; empty: nothing.
  std::string passed_over;
};

/// `a,b:4,user@c,[fe80::1]:2`. `where` names the option in messages.
Result<HostEntries> parse_hosts(std::string_view text, const std::string& where);

/// One host a line: `host`, `host:4` (MPICH, Intel MPI), `host slots=4` (Open MPI, DeepSpeed), with
/// `max_slots=` or `max-slots=` behind it. A # begins a comment; empty lines are passed over.
/// An Error names the file and the line, and shows the text.
Result<HostEntries> parse_hostfile(std::string_view text, const std::string& path);

}  // namespace ddprun
