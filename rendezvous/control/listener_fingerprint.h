// Stranger: what listens at the endpoint when it is no coordinator, told by the bytes that it says.
// A person who reads "a web server listens there" knows what to do. Pure.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

/// What to say to a listener that said nothing or hung up, on a connection of its own: the greeting
/// of a PyTorch store client, which such a store answers with kStoreProbeAnswer; it means nothing
/// to others.
extern const std::string_view kStoreProbe;
extern const std::string_view kStoreProbeAnswer;
/// Then this: line-based protocols answer an empty line with a complaint.
inline constexpr std::string_view kLineProbe = "\r\n\r\n";

/// "an SSH server", "a web server", ...; empty when the bytes tell nothing.
std::string identify_listener(std::string_view first_bytes);

/// "a web server listens there, not ddprun"; "something listens there ..." for an unknown one.
std::string describe_listener(std::string_view first_bytes);

}  // namespace ddprun
