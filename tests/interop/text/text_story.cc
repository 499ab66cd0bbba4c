// What our tokenizer and our reader of Hugging Face's folders say, for a Python test to compare:
//   text_story encode TOKENIZER TEXTS TOKENS   TEXTS: for each text its length (uint32) and its
//   bytes;
//                                              TOKENS: for each the number of tokens (uint32) and
//                                              the tokens (int32). Fails unless each decodes to its
//                                              text.
//   text_story speed TOKENIZER FILE            the processor's seconds that encoding the file takes
//   text_story copy FROM TO [TOKENIZER]        reads a folder of Hugging Face's, and writes another
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include "ddp/error.h"
#include "trainer/gpt2/huggingface.h"
#include "trainer/text/byte_pair_tokenizer.h"
#include "trainer/text/mapped_file.h"

namespace {

using Words = std::vector<std::string>;

void encode(const Words& words) {
  const auto tokenizer = ddp::BytePairTokenizer::load(words.at(1));
  const ddp::MappedFile texts(words.at(2));
  std::ofstream out(words.at(3), std::ios::binary);
  for (auto rest = texts.text(); !rest.empty();) {
    std::uint32_t size = 0;
    std::memcpy(&size, rest.data(), sizeof size);
    const auto text = rest.substr(sizeof size, size);
    rest.remove_prefix(sizeof size + size);
    const auto tokens = tokenizer->encode(text);
    if (tokenizer->decode(tokens) != text) {
      throw ddp::Error("a text does not decode to itself: " + std::string(text));
    }
    const auto count = static_cast<std::uint32_t>(tokens.size());
    out.write(reinterpret_cast<const char*>(&count), sizeof count);
    out.write(reinterpret_cast<const char*>(tokens.data()),
              static_cast<std::streamsize>(tokens.size() * sizeof tokens[0]));
  }
}

void speed(const Words& words) {
  const auto tokenizer = ddp::BytePairTokenizer::load(words.at(1));
  const ddp::MappedFile file(words.at(2));
  const auto begin = std::clock();  // others may want the processor, too
  const auto count = tokenizer->encode(file.text()).size();
  const auto taken = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  std::printf("%.6f %zu\n", taken, count);
}

/// GPT2Model's parameters, by name and shape.
std::vector<ddp::NamedTensor> gpt2_tensors(const ddp::HuggingFaceConfig& config) {
  const auto c = config.channels;
  std::vector<ddp::NamedTensor> tensors;
  const auto add = [&](const std::string& name, const ddp::Shape& shape) {
    tensors.push_back({name, ddp::Tensor::zeros(shape)});
  };
  add("wte.weight", {config.vocabulary_size, c});
  add("wpe.weight", {config.positions, c});
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string h = "h." + std::to_string(layer) + ".";
    for (const char* norm : {"ln_1.", "ln_2."}) {
      add(h + norm + "weight", {c});
      add(h + norm + "bias", {c});
    }
    add(h + "attn.c_attn.weight", {c, 3 * c});
    add(h + "attn.c_attn.bias", {3 * c});
    add(h + "attn.c_proj.weight", {c, c});
    add(h + "attn.c_proj.bias", {c});
    add(h + "mlp.c_fc.weight", {c, 4 * c});
    add(h + "mlp.c_fc.bias", {4 * c});
    add(h + "mlp.c_proj.weight", {4 * c, c});
    add(h + "mlp.c_proj.bias", {c});
  }
  add("ln_f.weight", {c});
  add("ln_f.bias", {c});
  return tensors;
}

void copy(const Words& words) {
  const auto config = ddp::read_huggingface_config(words.at(1));
  const auto tensors = gpt2_tensors(config);
  ddp::read_huggingface_tensors(words.at(1), tensors);
  std::vector<std::filesystem::path> tokenizer;
  if (words.size() > 3) {
    tokenizer = ddp::BytePairTokenizer::load(words[3])->files();
  }
  ddp::write_huggingface_folder(words.at(2), config, tensors, tokenizer);
}

}  // namespace

int main(int argc, char** argv) {
  const Words words(argv + 1, argv + argc);
  try {
    const std::string& what = words.at(0);
    what == "encode" ? encode(words) : what == "speed" ? speed(words) : copy(words);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
  return 0;
}
