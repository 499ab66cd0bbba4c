#include "rendezvous/control/listener_fingerprint.h"

#include <catch2/catch.hpp>

using namespace ddprun;
using namespace std::string_view_literals;  // allowed: literals alone

TEST_CASE("Common listeners are told by their first bytes (I-1)") {
  CHECK(identify_listener("SSH-2.0-OpenSSH_9.2\r\n") == "an SSH server");
  CHECK(identify_listener("HTTP/1.1 400 Bad Request") == "a web server");
  CHECK(identify_listener("<!DOCTYPE HTML>") == "a web server");
  CHECK(identify_listener("<!DOCTYP") ==
        "a web server");  // in place of a preamble, cut to its size
  CHECK(identify_listener("\x15\x03\x01\x00\x02"sv) == "a TLS server");
  CHECK(identify_listener("220 mail.example ESMTP") == "a mail or FTP server");
  CHECK(identify_listener("-ERR unknown command") == "a Redis server");
  CHECK(identify_listener(kStoreProbeAnswer).starts_with("a PyTorch store"));
}

TEST_CASE("Bytes that tell nothing make no claim") {
  for (const std::string_view bytes : {""sv, "\0\0\0\0"sv, "SSH"sv, "HTT"sv, "hello"sv}) {
    CHECK(identify_listener(bytes).empty());
    CHECK(describe_listener(bytes) ==
          "something listens there but does not speak ddprun's protocol");
  }
}
