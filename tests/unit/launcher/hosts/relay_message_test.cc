#include "launcher/hosts/relay_message.h"

#include <catch2/catch.hpp>

using namespace ddprun;

namespace {

RelayStart a_start() {
  RelayStart start;
  start.executable = "/usr/bin/ddprun";
  start.directory = "/home/me";
  start.environment = {"A=\xff\n", "B="};
  start.options = {"--nnodes=2"};
  start.program = {"train", std::string("a\0b", 3)};
  start.ssh = {"ssh", "-p", "22"};
  start.fan_out = 32;
  start.hosts = {{.number = 1, .target = "a", .words = {"--node-rank=1"}},
                 {.number = 2, .target = "me@b", .words = {}}};
  return start;
}

struct Frame {
  std::uint8_t type;
  std::string payload;
};

std::vector<Frame> frames_in(RelayReader& reader, std::string_view bytes) {
  std::vector<Frame> frames;
  reader.feed(bytes, [&](std::uint8_t type, std::string_view payload) {
    frames.push_back({type, std::string(payload)});
    return true;
  });
  return frames;
}

Frame only_frame(const std::string& bytes) {
  RelayReader reader(kToRelayFrameBytesMax, false);
  const auto frames = frames_in(reader, preamble() + bytes);
  REQUIRE(frames.size() == 1);
  return frames.front();
}

}  // namespace

TEST_CASE("A start and a signal come to a relay as they were", "[launcher][hosts]") {
  const RelayStart sent = a_start();
  const Frame frame = only_frame(frame_of(sent));
  const auto read = read_to_relay(frame.type, frame.payload);
  REQUIRE(read);
  const RelayStart& got = std::get<RelayStart>(*read);
  CHECK(got.executable == sent.executable);
  CHECK(got.directory == sent.directory);
  CHECK(got.environment == sent.environment);
  CHECK(got.options == sent.options);
  CHECK(got.program == sent.program);
  CHECK(got.ssh == sent.ssh);
  CHECK(got.fan_out == 32);
  REQUIRE(got.hosts.size() == 2);
  CHECK(got.hosts[1].number == 2);
  CHECK(got.hosts[1].target == "me@b");
  CHECK(got.hosts[0].words == sent.hosts[0].words);
  const Frame signal = only_frame(frame_of(RelaySignal{15}));
  CHECK(std::get<RelaySignal>(*read_to_relay(signal.type, signal.payload)).number == 15);
}

TEST_CASE("Output, an end and a loss come from a host as they were", "[launcher][hosts]") {
  const Frame output = only_frame(frame_of(HostOutput{7, true, std::string("a\0\xff", 3)}));
  const auto got = std::get<HostOutput>(*read_from_host(output.type, output.payload));
  CHECK(got.host == 7);
  CHECK(got.is_stderr);
  CHECK(got.bytes == std::string("a\0\xff", 3));
  const Frame ended = only_frame(frame_of(HostEnded{8, 75}));
  CHECK(std::get<HostEnded>(*read_from_host(ended.type, ended.payload)).code == 75);
  const Frame lost = only_frame(frame_of(HostLost{9, {"what", "where", "todo"}}));
  const auto message = *read_from_host(lost.type, lost.payload);
  CHECK(host_of(message) == 9);
  CHECK(std::get<HostLost>(message).why.sentence() == "where: what; todo");
}

TEST_CASE("A frame that is cut, too long or unknown is no message", "[launcher][hosts]") {
  const Frame start = only_frame(frame_of(a_start()));
  for (std::size_t size = 0; size < start.payload.size(); ++size) {
    CHECK(!read_to_relay(start.type, std::string_view(start.payload).substr(0, size)));
  }
  CHECK(!read_to_relay(start.type, start.payload + "x"));
  CHECK(!read_to_relay(99, ""));
  CHECK(!read_from_host(99, ""));
  const Frame signal = only_frame(frame_of(RelaySignal{15}));
  CHECK(!read_to_relay(signal.type, std::string(4, '\0')));          // there is no signal 0
  CHECK(!read_to_relay(signal.type, std::string("\x41\0\0\0", 4)));  // nor 65
}

TEST_CASE("What a login prints before the relay begins is kept aside", "[launcher][hosts]") {
  const std::string noise = "Welcome to the DDPRUN cluster\n";
  const std::string bytes = noise + relay_opening() + frame_of(HostEnded{1, 0});
  RelayReader reader(kFromHostFrameBytesMax, true);
  std::size_t frames = 0;
  for (const char byte : bytes) {
    frames += frames_in(reader, {&byte, 1}).size();
  }
  CHECK(frames == 1);
  CHECK(reader.state() == RelayReader::State::good);
  CHECK(reader.noise() == noise);
  // A relay itself is spoken to by ddprun alone.
  RelayReader strict(kToRelayFrameBytesMax, false);
  CHECK(frames_in(strict, "Welcome\n" + preamble() + frame_of(HostEnded{1, 0})).empty());
  CHECK(strict.state() == RelayReader::State::broken);
}

TEST_CASE("Another version and an endless talker are told apart", "[launcher][hosts]") {
  RelayReader other(kFromHostFrameBytesMax, true);
  frames_in(other, '\0' + preamble(kProtocolVersion + 1));
  CHECK(other.state() == RelayReader::State::other_version);
  CHECK(other.version() == kProtocolVersion + 1);
  RelayReader talker(kFromHostFrameBytesMax, true);
  frames_in(talker, std::string(RelayReader::kNoiseBytesMax, 'x'));
  CHECK(talker.state() == RelayReader::State::waiting);
  frames_in(talker, "x");
  CHECK(talker.state() == RelayReader::State::broken);
}
