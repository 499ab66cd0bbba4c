#include "rendezvous/control/listener_fingerprint.h"

#include <algorithm>
#include <cctype>

namespace ddprun {
namespace {

using namespace std::string_view_literals;  // allowed: literals alone

bool begins(std::string_view bytes, std::string_view with) {
  return bytes.size() >= with.size() &&
         std::equal(with.begin(), with.end(), bytes.begin(), [](char a, char b) {
           return std::tolower(static_cast<unsigned char>(a)) ==
                  std::tolower(static_cast<unsigned char>(b));
         });
}

}  // namespace

// VALIDATE with its magic number, then PING with a number that nobody says by chance; the answer
// is that number (rendezvous/store/store_protocol.h has the protocol).
const std::string_view kStoreProbe = "\x00\xce\xf7\x85\x3c\x0d\x64\x64\x70\x72"sv;
const std::string_view kStoreProbeAnswer = "\x64\x64\x70\x72"sv;

std::string identify_listener(std::string_view first_bytes) {
  if (begins(first_bytes, kStoreProbeAnswer)) {
    return "a PyTorch store (of a job under torchrun, or of a script that hosts its own)";
  }
  if (begins(first_bytes, "SSH-"sv)) {
    return "an SSH server";
  }
  // No more bytes than a preamble has may have been read, so "<!doctyp" is all of that word.
  if (begins(first_bytes, "HTTP/"sv) || begins(first_bytes, "<!doctyp"sv) ||
      begins(first_bytes, "<html"sv)) {
    return "a web server";
  }
  // An alert or a handshake record, version 3.x.
  if (begins(first_bytes, "\x15\x03"sv) || begins(first_bytes, "\x16\x03"sv)) {
    return "a TLS server";
  }
  if (begins(first_bytes, "220 "sv) || begins(first_bytes, "220-"sv)) {
    return "a mail or FTP server";
  }
  if (begins(first_bytes, "-ERR"sv) || begins(first_bytes, "-DENIED"sv)) {
    return "a Redis server";
  }
  return {};
}

std::string describe_listener(std::string_view first_bytes) {
  const std::string kind = identify_listener(first_bytes);
  return kind.empty() ? "something listens there but does not speak ddprun's protocol"
                      : kind + " listens there, and it does not speak ddprun's protocol";
}

}  // namespace ddprun
