// Fingerprint: XXH3 of 64 bits over bytes, as sixteen digits, so that two runs are compared by eye
// or by grep (docs/train.md).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace ddp {

class Fingerprint {
 public:
  Fingerprint();
  ~Fingerprint();
  Fingerprint(const Fingerprint&) = delete;
  Fingerprint& operator=(const Fingerprint&) = delete;

  /// One part after the other: only the bytes count, not how they are divided.
  void add(const void* bytes, std::size_t size);
  [[nodiscard]] std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ddp
