#include "trainer/text/tokenise.h"

#include "ddp/error.h"
#include "trainer/text/word_splitter.h"

namespace ddp {

void tokenise(TextForm form, std::string_view text, const Tokenizer& tokenizer,
              const std::function<void(std::span<const std::int32_t>)>& take,
              std::size_t chunk_bytes) {
  const auto end_of_text = tokenizer.end_of_text();
  bool any = false;
  for_each_document(form, text, [&](std::string_view document) {
    any = true;
    // Each cut is where no word goes on, so the tokens are those of the whole document.
    while (!document.empty()) {
      const auto chunk = document.substr(0, safe_cut(document, chunk_bytes));
      take(tokenizer.encode(chunk));
      document.remove_prefix(chunk.size());
    }
    if (end_of_text) {
      take({&*end_of_text, 1});
    }
  });
  if (!any) {
    throw Error(text.empty() ? "is empty" : "holds no record");
  }
}

}  // namespace ddp
