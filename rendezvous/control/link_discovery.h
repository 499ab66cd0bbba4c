// LinkDiscovery: the UDP sockets of link_words.h, of who asks and of who answers. Each object lives
// as long as it is held. Internal to control.
#pragma once

#include <memory>
#include <string>

#include "rendezvous/control/link_words.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

/// Answers questions of this job at the endpoint's port, on all of this machine's IPv4 networks.
class LinkAnswerer {
 public:
  /// Null where the port cannot be bound: nothing depends on it but the search of others.
  static std::shared_ptr<LinkAnswerer> open(boost::asio::io_context& io, LinkSecret secret);
  LinkAnswerer() = default;
  LinkAnswerer(const LinkAnswerer&) = delete;
  LinkAnswerer& operator=(const LinkAnswerer&) = delete;
  virtual ~LinkAnswerer() = default;
};

class LinkAskerOwner {
 public:
  LinkAskerOwner() = default;
  LinkAskerOwner(const LinkAskerOwner&) = delete;
  LinkAskerOwner& operator=(const LinkAskerOwner&) = delete;
  virtual ~LinkAskerOwner() = default;

  /// A host has answered from this numeric address; told once.
  virtual void on_link(const std::string& address) = 0;
};

/// Asks once on each IPv4 network of this machine.
class LinkAsker {
 public:
  /// `owner` is told on the loop, and outlives what is returned.
  static std::shared_ptr<LinkAsker> ask(boost::asio::io_context& io, LinkSecret secret,
                                        LinkAskerOwner& owner);
  LinkAsker() = default;
  LinkAsker(const LinkAsker&) = delete;
  LinkAsker& operator=(const LinkAsker&) = delete;
  virtual ~LinkAsker() = default;
};

}  // namespace ddprun
