#include "trainer/metrics/event_message.h"

#include <bit>
#include <cstddef>

#include "trainer/metrics/crc32c.h"

namespace ddp {
namespace {

/// Protobuf's wire types (protobuf.dev, "Encoding").
constexpr std::uint32_t kVarint = 0;
constexpr std::uint32_t kFixed64 = 1;
constexpr std::uint32_t kBytes = 2;
constexpr std::uint32_t kFixed32 = 5;

// Field numbers of tensorflow/core/util/event.proto and framework/summary.proto.
constexpr std::uint32_t kEventWallTime = 1;
constexpr std::uint32_t kEventStep = 2;
constexpr std::uint32_t kEventFileVersion = 3;
constexpr std::uint32_t kEventSummary = 5;
constexpr std::uint32_t kEventSessionLog = 7;
constexpr std::uint32_t kSessionLogStatus = 1;
constexpr std::uint64_t kSessionStart = 1;
constexpr std::uint32_t kSummaryValue = 1;
constexpr std::uint32_t kValueTag = 1;
constexpr std::uint32_t kValueSimple = 2;

void put_little_endian(std::string& out, std::uint64_t bits, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    out += static_cast<char>(bits >> (8U * static_cast<unsigned>(i)) & 0xFFU);
  }
}

/// Seven bits a byte, the lowest first; the top bit says that more follow.
void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80U; value >>= 7U) {
    out += static_cast<char>((value & 0x7FU) | 0x80U);
  }
  out += static_cast<char>(value);
}

void put_key(std::string& out, std::uint32_t field, std::uint32_t wire_type) {
  put_varint(out, field << 3U | wire_type);
}

void put_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string stamped(const EventStamp& stamp) {
  std::string event;
  put_key(event, kEventWallTime, kFixed64);
  put_little_endian(event, std::bit_cast<std::uint64_t>(stamp.wall_time), 8);
  put_key(event, kEventStep, kVarint);
  put_varint(event, static_cast<std::uint64_t>(stamp.step));
  return event;
}

}  // namespace

std::string version_event(double wall_time) {
  auto event = stamped({wall_time, 0});
  // Of version 2 on, a START decides what is purged; before, TensorBoard guessed it from the steps.
  put_bytes(event, kEventFileVersion, "brain.Event:2");
  return event;
}

std::string session_start_event(const EventStamp& stamp) {
  std::string log;
  put_key(log, kSessionLogStatus, kVarint);
  put_varint(log, kSessionStart);
  auto event = stamped(stamp);
  put_bytes(event, kEventSessionLog, log);
  return event;
}

std::string scalars_event(const EventStamp& stamp, const std::vector<Scalar>& scalars) {
  std::string summary;
  for (const auto& scalar : scalars) {
    std::string value;
    put_bytes(value, kValueTag, scalar.tag);
    put_key(value, kValueSimple, kFixed32);
    put_little_endian(value, std::bit_cast<std::uint32_t>(scalar.value), 4);
    put_bytes(summary, kSummaryValue, value);
  }
  auto event = stamped(stamp);
  put_bytes(event, kEventSummary, summary);
  return event;
}

std::string framed(std::string_view event) {
  std::string record;
  put_little_endian(record, event.size(), 8);
  put_little_endian(record, masked_crc32c(record), 4);
  record += event;
  put_little_endian(record, masked_crc32c(event), 4);
  return record;
}

}  // namespace ddp
