// RelayMessages: what the shell's ddprun and the relays on the hosts say to each other, over the
// standard streams of ssh. Pure. Both directions begin with the preamble of the control protocol
// (rendezvous/protocol/frame.h) and go on with its frames: kProtocolVersion is raised when a
// message changes here, too.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rendezvous/base/result.h"
#include "rendezvous/protocol/frame.h"

namespace ddprun {

/// One host of the job, for the process that starts it.
struct RelayHost {
  std::uint32_t number = 0;          ///< from 0, in the order of the job
  std::string target{};              ///< as ssh takes it
  std::vector<std::string> words{};  ///< options of its agent alone
  bool here = false;  ///< the host of the shell: no ssh is needed. Not in the message
};

/// To a relay, once and first: what it starts. Arguments and environment travel here, since
/// anybody on a host can read the words of a command line (ps).
struct RelayStart {
  std::string executable;                ///< ddprun's own path, the same on every host
  std::string directory;                 ///< to work in, the same on every host
  std::vector<std::string> environment;  ///< "NAME=value", over that of the host
  std::vector<std::string> options;      ///< words of every agent
  std::vector<std::string> program;      ///< and what the agents run
  std::vector<std::string> ssh;          ///< words of the command that reaches a host
  std::uint32_t fan_out = 1;             ///< hosts that one process starts at most
  std::vector<RelayHost> hosts;          ///< the first is the relay's own, the others are below it
};

/// To a relay: a signal for every agent at and below it.
struct RelaySignal {
  int number = 0;
};
using ToRelay = std::variant<RelayStart, RelaySignal>;

/// From a relay, about one host at or below it.
struct HostOutput {
  std::uint32_t host = 0;
  bool is_stderr = false;
  std::string bytes;
};
/// Its agent has ended, and all of its output was sent before.
struct HostEnded {
  std::uint32_t host = 0;
  int code = 0;  ///< as a shell has it: 128 + signal for one that was killed
};
/// Its agent could not be started, or nothing will be read of it any more.
struct HostLost {
  std::uint32_t host = 0;
  Error why;  ///< without the host
};
using FromHost = std::variant<HostOutput, HostEnded, HostLost>;

/// A host number in all three.
std::uint32_t host_of(const FromHost& message);

/// Output in one message at most: what a pipe holds.
inline constexpr std::size_t kOutputBytesMax = 64 * 1024;
/// Linux takes 2 MiB of arguments and environment by default (execve(2)); hosts need as much again.
inline constexpr std::size_t kToRelayFrameBytesMax = 64 * 1024 * 1024;
inline constexpr std::size_t kFromHostFrameBytesMax = 2 * kOutputBytesMax;

/// A whole frame. A start above kToRelayFrameBytesMax is for the caller to refuse.
std::string frame_of(const ToRelay& message);
std::string frame_of(const FromHost& message);
/// None for bytes that no frame_of() made.
std::optional<ToRelay> read_to_relay(std::uint8_t type, std::string_view payload);
std::optional<FromHost> read_from_host(std::uint8_t type, std::string_view payload);

/// The first bytes of a relay: a NUL before the preamble, since a login's text has none, but may
/// well have a word such as DDPRUN in it.
std::string relay_opening();

/// Cuts the bytes of a relay's stream into frames, after the preamble.
class RelayReader {
 public:
  enum class State : std::uint8_t { waiting, good, other_version, broken };

  /// `noise`: bytes before relay_opening() are kept aside, as what a login's scripts print on
  /// stdout; else they break the stream.
  RelayReader(std::size_t frame_bytes_max, bool noise) : frames_(frame_bytes_max), noise_(noise) {}

  /// Longest noise; what follows would be a program that talks on.
  static constexpr std::size_t kNoiseBytesMax = 64 * 1024;

  State feed(std::string_view bytes, const FrameReader::OnFrame& on_frame);
  [[nodiscard]] State state() const { return state_; }
  /// What came before the preamble; all of it while that has not come.
  [[nodiscard]] const std::string& noise() const { return begin_; }
  /// Of the other side, when it is another one.
  [[nodiscard]] std::uint16_t version() const { return version_; }

 private:
  FrameReader frames_;
  bool noise_;
  State state_ = State::waiting;
  std::uint16_t version_ = 0;
  std::string begin_;
};

}  // namespace ddprun
