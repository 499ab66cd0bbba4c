#include "launcher/hosts/relay_message.h"

#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/node_description.h"
#include "rendezvous/protocol/wire_archive.h"

namespace ddprun {
namespace {

enum class Down : std::uint8_t { start = 1, signal };
enum class Up : std::uint8_t { output = 1, ended, lost };

/// Beyond what execve(2) takes in words of two bytes.
constexpr std::size_t kListMax = 1 << 20;
/// A sentence that is longer is cut: paths in it may have 4,095 bytes.
constexpr std::size_t kErrorBytesMax = 4096;
constexpr int kSignalMax = 64;
constexpr int kCodeMax = 255;

// `Archive` is a Writer or a Reader, so the fields of each message are listed once.

template <class Archive, class Text>
void texts(Archive& archive, Text& values) {
  archive.list(values, kListMax,
               [](auto& a, auto& value) { a.text(value, kToRelayFrameBytesMax); });
}

template <class Archive, class Start>
void start_fields(Archive& archive, Start& start) {
  archive.text(start.executable, kToRelayFrameBytesMax);
  archive.text(start.directory, kToRelayFrameBytesMax);
  texts(archive, start.environment);
  texts(archive, start.options);
  texts(archive, start.program);
  texts(archive, start.ssh);
  archive.integer(start.fan_out, 1, kNodesMax);
  archive.list(start.hosts, kNodesMax, [](auto& a, auto& host) {
    a.integer(host.number, 0, kNodesMax);
    a.text(host.target, kToRelayFrameBytesMax);
    texts(a, host.words);
  });
}

template <class Archive, class Output>
void output_fields(Archive& archive, Output& output) {
  archive.integer(output.host, 0, kNodesMax);
  archive.boolean(output.is_stderr);
  archive.text(output.bytes, kOutputBytesMax);
}

template <class Archive, class Ended>
void ended_fields(Archive& archive, Ended& ended) {
  archive.integer(ended.host, 0, kNodesMax);
  archive.integer(ended.code, 0, kCodeMax);
}

template <class Archive, class Lost>
void lost_fields(Archive& archive, Lost& lost) {
  archive.integer(lost.host, 0, kNodesMax);
  archive.text(lost.why.what, kErrorBytesMax);
  archive.text(lost.why.where, kErrorBytesMax);
  archive.text(lost.why.todo, kErrorBytesMax);
}

/// Any byte too few or too many makes it no message.
template <class Variant, class Message, class Fields>
std::optional<Variant> read(std::string_view payload, Message message, Fields fields) {
  Reader reader(payload);
  fields(reader, message);
  return reader.complete() ? std::optional<Variant>(std::move(message)) : std::nullopt;
}

}  // namespace

std::uint32_t host_of(const FromHost& message) {
  return std::visit([](const auto& any) { return any.host; }, message);
}

// Types count for each direction by itself: no side reads what it has sent.
std::string frame_of(const ToRelay& message) {
  Writer writer;
  if (const auto* start = std::get_if<RelayStart>(&message)) {
    DDP_CHECK(!start->hosts.empty(), "a relay has a host of its own");
    start_fields(writer, *start);
    return frame(static_cast<std::uint8_t>(Down::start), writer.bytes());
  }
  writer.integer(std::get<RelaySignal>(message).number, 1, kSignalMax);
  return frame(static_cast<std::uint8_t>(Down::signal), writer.bytes());
}

std::string frame_of(const FromHost& message) {
  Writer writer;
  if (const auto* output = std::get_if<HostOutput>(&message)) {
    DDP_CHECK(output->bytes.size() <= kOutputBytesMax, "output is cut before it is sent");
    output_fields(writer, *output);
    return frame(static_cast<std::uint8_t>(Up::output), writer.bytes());
  }
  if (const auto* ended = std::get_if<HostEnded>(&message)) {
    ended_fields(writer, *ended);
    return frame(static_cast<std::uint8_t>(Up::ended), writer.bytes());
  }
  lost_fields(writer, std::get<HostLost>(message));
  return frame(static_cast<std::uint8_t>(Up::lost), writer.bytes());
}

// A relay executes what it reads, as the user that has logged in: who can write to its stdin is
// that user. So the bounds here are against mistakes, as of a shell that prints into the stream.
std::optional<ToRelay> read_to_relay(std::uint8_t type, std::string_view payload) {
  switch (static_cast<Down>(type)) {
    case Down::start: {
      auto start = read<ToRelay>(payload, RelayStart{},
                                 [](auto& reader, auto& fields) { start_fields(reader, fields); });
      // The relay's own host is the first of them.
      return start && !std::get<RelayStart>(*start).hosts.empty() ? start : std::nullopt;
    }
    case Down::signal:
      return read<ToRelay>(payload, RelaySignal{}, [](auto& reader, auto& signal) {
        reader.integer(signal.number, 1, kSignalMax);
      });
  }
  return std::nullopt;
}

std::optional<FromHost> read_from_host(std::uint8_t type, std::string_view payload) {
  switch (static_cast<Up>(type)) {
    case Up::output:
      return read<FromHost>(payload, HostOutput{},
                            [](auto& reader, auto& output) { output_fields(reader, output); });
    case Up::ended:
      return read<FromHost>(payload, HostEnded{},
                            [](auto& reader, auto& ended) { ended_fields(reader, ended); });
    case Up::lost:
      return read<FromHost>(payload, HostLost{},
                            [](auto& reader, auto& lost) { lost_fields(reader, lost); });
  }
  return std::nullopt;
}

std::string relay_opening() {
  return '\0' + preamble();
}

RelayReader::State RelayReader::feed(std::string_view bytes, const FrameReader::OnFrame& on_frame) {
  if (state_ == State::waiting) {
    // The preamble may come in pieces, and behind anything that a login's scripts print.
    begin_ += bytes;
    auto magic = begin_.find(noise_ ? '\0' + std::string(kPreambleMagic) : kPreambleMagic);
    magic += noise_ && magic != std::string::npos ? 1 : 0;
    if (magic == std::string::npos || begin_.size() - magic < kPreambleBytes) {
      const bool too_much =
          noise_ ? begin_.size() > kNoiseBytesMax : begin_.size() >= kPreambleBytes;
      return state_ = too_much ? State::broken : State::waiting;
    }
    const PreambleCheck check = check_preamble(std::string_view(begin_).substr(magic));
    DDP_CHECK(check.verdict != PreambleVerdict::incomplete, "all of its bytes are there");
    version_ = check.version;
    if (check.verdict != PreambleVerdict::good || (magic > 0 && !noise_)) {
      return state_ = check.verdict == PreambleVerdict::other_version ? State::other_version
                                                                      : State::broken;
    }
    // What stands behind it is frames already.
    state_ = State::good;
    const std::string rest = begin_.substr(magic + kPreambleBytes);
    begin_.resize(magic - (noise_ ? 1 : 0));
    return feed(rest, on_frame);
  }
  if (state_ == State::good && !frames_.feed(bytes, on_frame)) {
    state_ = State::broken;
  }
  return state_;
}

}  // namespace ddprun
