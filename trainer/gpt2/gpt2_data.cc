#include "trainer/gpt2/gpt2_data.h"

#include <cstdio>
#include <utility>

#include "trainer/fingerprint.h"

namespace ddp {
namespace {

/// Of the tokens themselves, not of the files' names: a copy in another place is the same data.
std::string fingerprint_of(const std::vector<TokenFile>& files, const TokenDataOptions& options) {
  Fingerprint all;
  for (const TokenFile& file : files) {
    const auto bytes = file.tokens.bytes();
    all.add(bytes.data(), bytes.size());
  }
  all.add(std::vector<std::size_t>{options.sequence_length});
  all.add(std::vector<double>{options.validation_share});
  return all.text();
}

}  // namespace

Gpt2Data::Gpt2Data(std::vector<TokenFile> files, const Tokenizer* tokenizer,
                   const TokenDataOptions& options)
    : time_(options.sequence_length),
      fingerprint_(fingerprint_of(files, options)),
      tokens_(std::move(files), options) {
  if (tokenizer != nullptr) {
    validation_bytes_ = tokens_.validation_bytes(*tokenizer, 0, tokens_.validation_samples());
  }
}

std::string per_byte_text(const Gpt2Data& data, double loss) {
  if (data.validation_bytes() == 0) {
    return "";
  }
  char text[48];
  std::snprintf(text, sizeof text, ", %.4f per byte",
                loss * static_cast<double>(data.validation_samples() * data.time()) /
                    static_cast<double>(data.validation_bytes()));
  return text;
}

}  // namespace ddp
