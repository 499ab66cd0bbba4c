// Tokenise: a file's text to the tokens of all its documents, each followed by the token that ends
// a text (where the tokenizer has one). Pure. The text is encoded in chunks cut at safe places
// (word_splitter.h), so the memory does not grow with it, and the tokens are those of the whole.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "trainer/text/documents.h"
#include "trainer/text/tokenizer.h"

namespace ddp {

/// About a quarter of a second's work.
inline constexpr std::size_t kChunkBytes = std::size_t{4} << 20U;

/// Hands over the tokens piece by piece, in order. Throws ddp::Error when there is no document, and
/// what for_each_document() and the tokenizer throw.
void tokenise(TextForm form, std::string_view text, const Tokenizer& tokenizer,
              const std::function<void(std::span<const std::int32_t>)>& take,
              std::size_t chunk_bytes = kChunkBytes);

}  // namespace ddp
