// RemoteCommand: the words that lead to a relay on a host. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/hosts/relay_message.h"

namespace ddprun {

/// The one word with which ddprun is a relay. Nothing else is on its command line.
inline constexpr std::string_view kRelayWord = "--relay-of-hosts";

/// The words of --ssh-command, the options that ddprun gives to a program called ssh (one that is
/// given there already wins: ssh takes the first), the host, and what the far shell executes.
std::vector<std::string> ssh_words(const RelayStart& start, const std::string& target);

}  // namespace ddprun
