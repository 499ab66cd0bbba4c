#include "rendezvous/consensus/leader_record_text.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "rendezvous/base/check.h"
#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/text.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

using nlohmann::json;

/// A number of JSON may be negative, a fraction, or larger than any integer. 0: it is none of ours.
std::uint64_t whole_at(const json& object, const char* name, std::uint64_t most) {
  const auto found = object.find(name);
  const bool whole = found != object.end() && found->is_number_unsigned();
  const auto number = whole ? found->get<std::uint64_t>() : 0;
  return number <= most ? number : 0;
}

/// People read it in the log, and a name service is asked for it: whoever may write that entry is
/// not to write lines of the log by it, nor send a terminal what it would obey.
bool is_address(const std::string& text) {
  return !text.empty() && is_host(text);
}

}  // namespace

/// 64 bits as texts: JSON's numbers are doubles to many who read it.
std::string text_of(const LeaderRecord& record) {
  DDP_CHECK(number(record.term) > 0, "who leads has a term");
  return json{{"term", number(record.term)},
              {"voter", std::to_string(number(record.voter))},
              {"instance", std::to_string(number(record.instance))},
              {"addresses", record.addresses},
              {"port", record.port}}
      .dump();
}

/// Other names are left out of account: a later version may have more.
std::optional<LeaderRecord> leader_record_of(const std::string& text) {
  const json read = json::parse(text, nullptr, false);
  LeaderRecord record;
  try {
    const auto voter = parse_number<std::uint64_t>(read.at("voter").get<std::string>());
    const auto instance = parse_number<std::uint64_t>(read.at("instance").get<std::string>());
    record.addresses = read.at("addresses").get<std::vector<std::string>>();
    record.term = Term{static_cast<std::uint32_t>(whole_at(read, "term", number(kTermMax)))};
    record.port = static_cast<std::uint16_t>(whole_at(read, "port", 65'535));
    if (!voter || !instance || number(record.term) == 0 || record.port == 0 ||
        record.addresses.empty() || record.addresses.size() > kAddressesMax + 1 ||
        !std::all_of(record.addresses.begin(), record.addresses.end(), is_address)) {
      return std::nullopt;
    }
    record.voter = VoterId{*voter};
    record.instance = JobInstance{*instance};
  } catch (const json::exception&) {
    return std::nullopt;
  }
  return record;
}

std::optional<Term> term_of(const std::string& text) {
  const auto number = parse_number<std::uint64_t>(text);
  return number && *number < ddprun::number(kTermMax)
             ? std::optional(Term{static_cast<std::uint32_t>(*number)})
             : std::nullopt;
}

}  // namespace ddprun
