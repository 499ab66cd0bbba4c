// Any bytes as each of the files that the trainer reads: what is accepted is consistent, and what
// is not is refused with a reason. The first byte chooses the reader.
#include <string>
#include <vector>

#include "ddp/error.h"
#include "ddp/safetensors.h"
#include "tests/fuzz/input.h"
#include "trainer/gpt2/huggingface_config.h"
#include "trainer/text/byte_pair_tokenizer.h"
#include "trainer/text/documents.h"
#include "trainer/text/token_file.h"
#include "trainer/text/word_splitter.h"

namespace {

using ddprun::fuzz::require;

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// The 256 bytes and a few merges, so that a fuzzer's merges may name tokens.
std::string vocabulary() {
  std::string text = "{";
  for (unsigned byte = 0, next = 256; byte < 256; ++byte) {
    const bool visible = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    const unsigned character = visible ? byte : next++;
    char escaped[32];
    std::snprintf(escaped, sizeof escaped, "\"\\u%04x\":%u,", character, byte);
    text += escaped;
  }
  return text + R"("ab":256,"abc":257,"bc":258,"<|endoftext|>":259})";
}

void check_tokenizer(ddp::BytePairVocabulary vocabulary, std::string_view text) {
  const ddp::BytePairTokenizer tokenizer(std::move(vocabulary));
  const auto tokens = tokenizer.encode(text);
  require(tokenizer.decode(tokens) == text, "a text decodes to itself");
  const auto at = ddp::safe_cut(text, text.size() / 2);
  auto parts = tokenizer.encode(text.substr(0, at));
  const auto rest = tokenizer.encode(text.substr(at));
  parts.insert(parts.end(), rest.begin(), rest.end());
  require(parts == tokens, "a text cut at a safe place has the tokens of the whole");
}

void read(unsigned what, std::string_view text) {
  switch (what % 6) {
    case 0:
      check_tokenizer(ddp::parse_tokenizer_json({"t", text}), text);
      break;
    case 1: {
      const auto middle = text.size() / 2;
      static const auto known = vocabulary();
      check_tokenizer(ddp::parse_vocabulary_and_merges({"v", known}, {"m", text.substr(0, middle)}),
                      text.substr(middle));
      break;
    }
    case 2:
      for (const auto& entry : ddp::read_safetensors_header(bytes(text))) {
        require(entry.first_byte + entry.byte_count <= text.size(), "a tensor is in its file");
      }
      break;
    case 3: {
      const auto tokens = ddp::decode_token_bin(bytes(text));
      std::vector<std::int32_t> all(tokens.size());
      tokens.read(0, all);
      require(2 * all.size() + 1024 == text.size(), "every token is in its file");
      break;
    }
    case 4:
      for (const auto form :
           {ddp::TextForm::plain, ddp::TextForm::json, ddp::TextForm::json_lines}) {
        ddp::for_each_document(form, text, [](std::string_view) {});
      }
      break;
    default: {
      const auto config = ddp::parse_huggingface_config(text);
      require(config.channels % config.heads == 0, "the heads divide the channels");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ddprun::fuzz::Input input(data, size);
  const unsigned what = input.byte();
  try {
    read(what, input.rest());
  } catch (const ddp::Error& error) {
    require(std::string(error.what()).size() > 6, "a refusal has a reason");
  }
  return 0;
}
