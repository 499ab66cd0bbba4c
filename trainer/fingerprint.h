// Fingerprint: XXH3 of 64 bits over bytes, as sixteen digits. By it two runs, or two ranks' data,
// are compared, by eye or by grep too (docs/train.md). No protection against forgery.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace ddp {

class Fingerprint {
 public:
  Fingerprint();
  ~Fingerprint();
  Fingerprint(const Fingerprint&) = delete;
  Fingerprint& operator=(const Fingerprint&) = delete;

  /// One part after the other: only the bytes count, not how they are divided.
  void add(const void* bytes, std::size_t size);
  template <class T>
  void add(const std::vector<T>& values) {
    add(values.data(), values.size() * sizeof(T));
  }
  [[nodiscard]] std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Of vectors of numbers, one after the other.
template <class T>
std::string fingerprint(const std::vector<std::vector<T>>& parts) {
  Fingerprint all;
  for (const auto& part : parts) {
    all.add(part);
  }
  return all.text();
}

}  // namespace ddp
