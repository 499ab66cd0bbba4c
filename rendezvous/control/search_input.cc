#include "rendezvous/control/search_input.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <iterator>
#include <utility>

#include "rendezvous/control/listener.h"
#include "rendezvous/control/listener_fingerprint.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

/// No name service is asked.
bool is_numeric(const std::string& address) {
  boost::system::error_code failed;
  boost::asio::ip::make_address(address, failed);
  return !failed;
}

/// An agent redirects by numbers. A name in its message would make this node ask its name service
/// for whatever a stranger wrote, so it is dropped.
search::Redirected redirected(message::Moved moved) {
  std::erase_if(moved.addresses, [](const std::string& one) { return !is_numeric(one); });
  search::Redirected input{std::move(moved), {}};
  std::copy_if(input.moved.addresses.begin(), input.moved.addresses.end(),
               std::back_inserter(input.own), is_own_address);
  return input;
}

}  // namespace

// A name service may list an address twice, as for a name with two lines in /etc/hosts.
search::Resolved resolved_to(const std::vector<std::string>& addresses, bool literal) {
  search::Resolved found{{}, literal};
  for (const std::string& text : addresses) {
    if (std::none_of(found.addresses.begin(), found.addresses.end(),
                     [&](const search::Address& known) { return known.text == text; })) {
      found.addresses.push_back({text, is_own_address(text)});
    }
  }
  return found;
}

// A frame that cannot be decoded, or that is no answer to a Hello, is a stranger's: a program that
// sends our preamble back (an echo server) gets this far.
search::Input answer_of(std::uint8_t type, const std::string& payload) {
  auto answer = decode(type, payload);
  if (answer && std::holds_alternative<message::Accepted>(*answer)) {
    return search::Accepted{std::get<message::Accepted>(*std::move(answer))};
  }
  if (answer && std::holds_alternative<message::Moved>(*answer)) {
    return redirected(std::get<message::Moved>(*std::move(answer)));
  }
  if (answer && std::holds_alternative<message::Rejected>(*answer)) {
    return search::Rejected{std::get<message::Rejected>(*std::move(answer))};
  }
  return stranger(payload);
}

search::Stranger stranger(const std::string& first_bytes) {
  return {describe_listener(first_bytes), !identify_listener(first_bytes).empty()};
}

}  // namespace ddprun
