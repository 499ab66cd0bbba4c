// Frames: how messages lie on the wire (docs/control-protocol.md). Pure and bounded.
//
// Each side opens with a preamble of eight bytes, "DDPRUN" and its protocol version; the agent
// first, the coordinator only after it has seen a good one, so that a stranger learns nothing.
// Then frames: u32 length of what follows, u8 type, payload; all integers little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace ddprun {

inline constexpr std::string_view kPreambleMagic = "DDPRUN";
inline constexpr std::size_t kPreambleBytes = 8;
/// Raised whenever a message changes. Nodes of one job run one version of ddprun.
inline constexpr std::uint16_t kProtocolVersion = 22;

/// Largest frame from an agent: a bounded set of failure records (kIncidentEvidenceBytesMax).
inline constexpr std::size_t kAgentFrameBytesMax = 1024 * 1024;
/// Largest frame from the coordinator: the summary of a long job.
inline constexpr std::size_t kCoordinatorFrameBytesMax = 8 * 1024 * 1024;
inline constexpr std::size_t kFrameHeaderBytes = 5;

/// The preamble of this version, or of another for tests.
std::string preamble(std::uint16_t version = kProtocolVersion);

enum class PreambleVerdict : std::uint8_t { incomplete, good, other_version, stranger };
struct PreambleCheck {
  PreambleVerdict verdict = PreambleVerdict::incomplete;
  std::uint16_t version = 0;  ///< when good or other_version
};
/// Judges the first bytes of a connection; a stranger shows at its first wrong byte.
PreambleCheck check_preamble(std::string_view bytes);
/// "it speaks version 2 of the control protocol, but the coordinator speaks version 3".
std::string versions_clause(std::string_view they, std::uint16_t theirs, std::string_view we);

/// A whole frame.
std::string frame(std::uint8_t type, std::string_view payload);

/// Cuts a stream of bytes into frames. Keeps no more than one incomplete frame.
class FrameReader {
 public:
  /// `frame_bytes_max` bounds type and payload together.
  explicit FrameReader(std::size_t frame_bytes_max) : max_(frame_bytes_max) {}

  /// Called for each whole frame; false ends the feeding (the rest of the bytes is dropped).
  using OnFrame = std::function<bool(std::uint8_t type, std::string_view payload)>;
  /// False when a frame is empty or too long: the stream is beyond repair then.
  bool feed(std::string_view bytes, const OnFrame& on_frame);
  /// Bytes of the incomplete frame at hand.
  [[nodiscard]] std::size_t pending_bytes() const { return partial_.size(); }

 private:
  std::size_t max_;
  std::string partial_;
};

}  // namespace ddprun
