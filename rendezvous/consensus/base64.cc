#include "rendezvous/consensus/base64.h"

#include <sodium.h>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// With "+", "/" and "=": what JSON of protocol buffers has, and what `base64 -d` reads.
constexpr int kVariant = sodium_base64_VARIANT_ORIGINAL;

}  // namespace

std::string base64(const std::string& bytes) {
  std::string text(sodium_base64_encoded_len(bytes.size(), kVariant), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                    bytes.size(), kVariant);
  text.pop_back();  // the NUL that it writes
  DDP_CHECK(text.size() == (bytes.size() + 2) / 3 * 4, "three bytes are four characters");
  return text;
}

std::optional<std::string> from_base64(const std::string& text) {
  std::string bytes(text.size(), '\0');
  std::size_t size = 0;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                        text.size(), nullptr, &size, nullptr, kVariant) != 0) {
    return std::nullopt;
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace ddprun
