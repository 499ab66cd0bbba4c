// NameLookup: asks the name service for a host's addresses. The first of several name servers may
// be down, and the next one answers after five seconds (resolv.conf(5), timeout): later than a
// search waits. So a question goes on, and its answer is kept for the next time that it is asked.
// Internal to control.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace boost::asio {
class io_context;
}

namespace ddprun {

struct NameAnswer {
  std::vector<std::string> addresses;  ///< numeric; an address may be there twice
  std::string failure;                 ///< the system's words; empty: there are addresses
};

class NameLookupOwner {
 public:
  NameLookupOwner() = default;
  NameLookupOwner(const NameLookupOwner&) = delete;
  NameLookupOwner& operator=(const NameLookupOwner&) = delete;
  virtual ~NameLookupOwner() = default;

  /// The answer to the newest question, which had this number. False: nobody waits for it any more,
  /// and it is kept.
  virtual bool on_name(std::uint64_t round, const NameAnswer& answer) = 0;
};

class NameLookup {
 public:
  /// `owner` outlives this, or cancels it before it dies.
  static std::shared_ptr<NameLookup> create(boost::asio::io_context& io, NameLookupOwner& owner);
  NameLookup() = default;
  NameLookup(const NameLookup&) = delete;
  NameLookup& operator=(const NameLookup&) = delete;
  virtual ~NameLookup() = default;

  /// on_name() follows, maybe at once. A question before this one is not answered any more.
  virtual void ask(const std::string& host, std::uint64_t round) = 0;
  /// Nothing follows.
  virtual void cancel() = 0;
};

}  // namespace ddprun
