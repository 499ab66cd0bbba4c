#include "worker_runtime/bootstrap/peer_monitor_frame.h"

namespace ddp {
namespace {

constexpr std::size_t kHeader = 5;  // type and rank, after the length

/// By shifts: the bytes on the wire do not depend on the machine.
void put_u32(std::string& out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) {
    out.push_back(static_cast<char>(value >> shift & 0xff));
  }
}

/// Of a text that has four bytes at least.
std::uint32_t get_u32(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

}  // namespace

/// The length counts what is behind it: type, rank and text.
std::string encode(const LifelineFrame& frame) {
  std::string out;
  put_u32(out, static_cast<std::uint32_t>(kHeader + frame.text.size()));
  out.push_back(static_cast<char>(frame.type));
  put_u32(out, static_cast<std::uint32_t>(frame.rank));
  return out + frame.text;
}

std::optional<LifelineFrame> take_frame(std::string& bytes, bool& broken) {
  if (bytes.size() < 4) {
    return std::nullopt;
  }
  const std::size_t length = get_u32(bytes);
  // The port is open to the network: a length is bounded before anything is kept for it.
  if (length < kHeader || length > kLifelineMaxFrame) {
    broken = true;
    return std::nullopt;
  }
  // TCP keeps no borders: the rest comes with a later read.
  if (bytes.size() < 4 + length) {
    return std::nullopt;
  }
  LifelineFrame frame;
  const auto type = static_cast<std::uint8_t>(bytes[4]);
  // Another version or another program; a guess could name the wrong rank.
  if (type < 1 || type > static_cast<std::uint8_t>(LifelineFrame::Type::data)) {
    broken = true;
    return std::nullopt;
  }
  frame.type = static_cast<LifelineFrame::Type>(type);
  // Two's complement: -1, an unknown rank, comes back as such.
  frame.rank = static_cast<int>(get_u32(std::string_view(bytes).substr(5)));
  frame.text = bytes.substr(4 + kHeader, length - kHeader);
  bytes.erase(0, 4 + length);
  return frame;
}

std::string pack_blobs(const std::vector<std::string>& blobs) {
  std::string out;
  // Their number, then each behind its length.
  put_u32(out, static_cast<std::uint32_t>(blobs.size()));
  for (const std::string& blob : blobs) {
    put_u32(out, static_cast<std::uint32_t>(blob.size()));
    out += blob;
  }
  return out;
}

std::optional<std::vector<std::string>> unpack_blobs(std::string_view text) {
  const auto take = [&text]() -> std::optional<std::size_t> {
    if (text.size() < 4) {
      return std::nullopt;
    }
    const std::uint32_t value = get_u32(text);
    text.remove_prefix(4);
    return value;
  };
  const std::optional<std::size_t> count = take();
  // Each blob takes four bytes at least, so a larger count cannot be true.
  if (!count || *count > text.size() / 4) {
    return std::nullopt;
  }
  std::vector<std::string> blobs;
  for (std::size_t i = 0; i < *count; ++i) {
    const std::optional<std::size_t> size = take();
    if (!size || *size > text.size()) {
      return std::nullopt;
    }
    blobs.emplace_back(text.substr(0, *size));
    text.remove_prefix(*size);
  }
  // Bytes that are left over: pack_blobs has not made this text.
  return text.empty() ? std::optional(blobs) : std::nullopt;
}

}  // namespace ddp
