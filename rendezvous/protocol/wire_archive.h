// Writer and Reader: numbers, texts and lists as the control protocol has them in its frames
// (docs/control-protocol.md). Internal to message_codec.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/check.h"

namespace ddprun {

// Writer and Reader offer the same calls, so that the fields of each message are listed once (in
// `fields`) and both directions cannot differ.

class Writer {
 public:
  /// Brought within its limits, as texts are: our own nonsense must not cost the connection.
  template <class T>
  void integer(const T& value, std::int64_t min = 0,
               std::int64_t max = std::numeric_limits<std::int64_t>::max()) {
    raw(static_cast<std::uint64_t>(std::clamp(static_cast<std::int64_t>(value), min, max)),
        sizeof(T));
  }
  /// Any 64 bits.
  void bits(const std::uint64_t& value) { raw(value, sizeof value); }
  void boolean(const bool& value) { bytes_ += value ? '\1' : '\0'; }
  void real(const double& value) { raw(std::bit_cast<std::uint64_t>(value), sizeof value); }
  void text(const std::string& value, std::size_t max) {
    const auto size = static_cast<std::uint32_t>(std::min(value.size(), max));
    integer(size);
    bytes_.append(value, 0, size);
  }
  template <class T, class Field>
  void optional(const std::optional<T>& value, Field field) {
    boolean(value.has_value());
    if (value) {
      field(*this, *value);
    }
  }
  template <class T, class Field>
  void list(const std::vector<T>& values, std::size_t max, Field field) {
    DDP_CHECK(values.size() <= max, "lists are bounded before they are sent");
    integer(static_cast<std::uint32_t>(values.size()));
    for (const T& value : values) {
      field(*this, value);
    }
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void raw(std::uint64_t bits, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
      bytes_ += static_cast<char>(bits & 0xff);
      bits >>= 8;
    }
  }
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  void integer(T& value, std::int64_t min = 0,
               std::int64_t max = std::numeric_limits<std::int64_t>::max()) {
    const auto read = static_cast<T>(raw(sizeof(T)));
    const auto wide = static_cast<std::int64_t>(read);
    failed_ = failed_ || wide < min || wide > max;
    if (!failed_) {
      value = read;
    }
  }
  void bits(std::uint64_t& value) { value = raw(sizeof value); }
  void boolean(bool& value) {
    std::uint8_t byte = 0;
    integer(byte, 0, 1);
    value = byte == 1;
  }
  void real(double& value) { value = std::bit_cast<double>(raw(sizeof value)); }
  void text(std::string& value, std::size_t max) {
    std::uint32_t size = 0;
    integer(size, 0, static_cast<std::int64_t>(max));
    if (need(size)) {
      value = bytes_.substr(0, size);
      bytes_.remove_prefix(size);
    }
  }
  template <class T, class Field>
  void optional(std::optional<T>& value, Field field) {
    bool present = false;
    boolean(present);
    if (present && !failed_) {
      field(*this, value.emplace());
    }
  }
  template <class T, class Field>
  void list(std::vector<T>& values, std::size_t max, Field field) {
    std::uint32_t size = 0;
    integer(size, 0, static_cast<std::int64_t>(max));
    for (std::uint32_t i = 0; i < size && !failed_; ++i) {
      field(*this, values.emplace_back());
    }
  }
  /// Everything was there, within its limits, and nothing is left.
  [[nodiscard]] bool complete() const { return !failed_ && bytes_.empty(); }

 private:
  /// 0 when there are not enough bytes.
  std::uint64_t raw(std::size_t size) {
    std::uint64_t bits = 0;
    if (!need(size)) {
      return bits;
    }
    for (std::size_t i = 0; i < size; ++i) {
      bits |= std::uint64_t{static_cast<unsigned char>(bytes_[i])} << (8 * i);
    }
    bytes_.remove_prefix(size);
    return bits;
  }
  bool need(std::size_t size) {
    failed_ = failed_ || bytes_.size() < size;
    return !failed_;
  }
  std::string_view bytes_;
  bool failed_ = false;
};

}  // namespace ddprun
