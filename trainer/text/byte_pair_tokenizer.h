// BytePairTokenizer: GPT-2's tokenizer, byte-level byte-pair encoding (Sennrich et al. 2016,
// Radford et al. 2019). A text is cut at its added tokens, then into words (word_splitter.h);
// within a word the pair of neighbours with the lowest rank becomes one token, again and again. The
// tokens are those of Hugging Face's tokenizers library for the same files (docs/text.md has the
// limits).
//
// Bytes that are no well-formed UTF-8 lose nothing: a stretch of them is a word of its own, so
// decode(encode(x)) == x for any bytes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "trainer/text/byte_pair_vocabulary.h"
#include "trainer/text/tokenizer.h"

namespace ddp {

/// Threads that encode at the same time wait for each other: they share a cache of words.
class BytePairTokenizer final : public Tokenizer {
 public:
  explicit BytePairTokenizer(BytePairVocabulary vocabulary);
  ~BytePairTokenizer() override;

  /// From a folder that holds tokenizer.json (taken first) or vocab.json and merges.txt, or from
  /// one of these files; a file of another name is read as a tokenizer.json. Throws ddp::Error,
  /// which begins with the path, as byte_pair_vocabulary.h has it.
  static std::unique_ptr<BytePairTokenizer> load(const std::filesystem::path& path);

  [[nodiscard]] std::int32_t vocabulary_size() const override;
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override;
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const override;
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const override;

  /// The files that load() read: what belongs beside a model that was trained with it.
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const { return files_; }

 private:
  struct Encoder;
  std::vector<std::filesystem::path> files_;
  std::unique_ptr<Encoder> encoder_;
};

}  // namespace ddp
