#include "rendezvous/protocol/frame.h"

#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

constexpr std::size_t kLengthBytes = 4;

/// By bytes: the wire is little-endian whatever the machine is, and a frame lies at any address.
std::size_t frame_length(std::string_view header) {
  DDP_CHECK(header.size() >= kLengthBytes, "the length is whole");
  std::size_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length |= static_cast<std::size_t>(static_cast<unsigned char>(header[i])) << (8 * i);
  }
  return length;
}

}  // namespace

std::string preamble(std::uint16_t version) {
  std::string bytes(kPreambleMagic);
  bytes += static_cast<char>(version & 0xff);
  bytes += static_cast<char>(version >> 8);
  DDP_CHECK(bytes.size() == kPreambleBytes, "a preamble has eight bytes");
  return bytes;
}

/// A stranger is certain at its first wrong byte, however few have come. A store client of the
/// static backend sends less than eight at first, and must be handed over at once.
PreambleCheck check_preamble(std::string_view bytes) {
  const std::size_t magic = std::min(bytes.size(), kPreambleMagic.size());
  if (bytes.substr(0, magic) != kPreambleMagic.substr(0, magic)) {
    return {PreambleVerdict::stranger, 0};
  }
  if (bytes.size() < kPreambleBytes) {
    return {PreambleVerdict::incomplete, 0};
  }
  const auto version = static_cast<std::uint16_t>(static_cast<unsigned char>(bytes[6]) |
                                                  static_cast<unsigned char>(bytes[7]) << 8);
  return {version == kProtocolVersion ? PreambleVerdict::good : PreambleVerdict::other_version,
          version};
}

std::string versions_clause(std::string_view they, std::uint16_t theirs, std::string_view we) {
  DDP_CHECK(theirs != kProtocolVersion, "versions that are named differ");
  return fmt::format("{} speaks version {} of the control protocol, but {} speaks version {}", they,
                     theirs, we, kProtocolVersion);
}

std::string frame(std::uint8_t type, std::string_view payload) {
  const std::size_t length = payload.size() + 1;
  DDP_CHECK(length <= 0xffffffff, "a length fits into four bytes");
  std::string bytes;
  bytes.reserve(kLengthBytes + length);
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    bytes += static_cast<char>(length >> (8 * i) & 0xff);
  }
  bytes += static_cast<char>(type);
  bytes += payload;
  DDP_CHECK(bytes.size() == kLengthBytes + length, "a frame is as long as it says");
  return bytes;
}

/// The length is checked before anything is kept for it. A peer makes this process hold no more
/// than it has really sent, and never more than one frame.
bool FrameReader::feed(std::string_view bytes, const OnFrame& on_frame) {
  DDP_CHECK(max_ > 0, "a frame has room for its type");
  while (!bytes.empty()) {
    if (partial_.empty() && bytes.size() >= kLengthBytes) {
      // The usual case: whole frames, read where they lie.
      const std::size_t length = frame_length(bytes);
      if (length == 0 || length > max_) {
        return false;
      }
      if (bytes.size() - kLengthBytes >= length) {
        const std::string_view body = bytes.substr(kLengthBytes, length);
        bytes.remove_prefix(kLengthBytes + length);
        DDP_CHECK(!body.empty(), "a frame that is whole has a type");
        if (!on_frame(static_cast<std::uint8_t>(body[0]), body.substr(1))) {
          return true;
        }
        continue;
      }
    }
    std::size_t wanted = kLengthBytes;
    if (partial_.size() >= kLengthBytes) {
      wanted += frame_length(partial_);
    }
    DDP_CHECK(partial_.size() < wanted, "a whole frame is handed out at once");
    const std::size_t taken = std::min(wanted - partial_.size(), bytes.size());
    partial_.append(bytes.substr(0, taken));
    DDP_CHECK(partial_.size() <= kLengthBytes + max_, "no more than one frame is kept");
    bytes.remove_prefix(taken);
    if (partial_.size() < kLengthBytes) {
      return true;
    }
    const std::size_t length = frame_length(partial_);
    if (length == 0 || length > max_) {
      return false;
    }
    if (partial_.size() == kLengthBytes + length) {
      // Moved out first, so that an idle connection keeps no buffer.
      const std::string whole = std::move(partial_);
      partial_ = {};
      const std::string_view body = std::string_view(whole).substr(kLengthBytes);
      DDP_CHECK(!body.empty(), "a frame that is whole has a type");
      if (!on_frame(static_cast<std::uint8_t>(body[0]), body.substr(1))) {
        return true;
      }
    }
  }
  return true;
}

}  // namespace ddprun
