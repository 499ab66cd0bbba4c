// TokenCache: the tokens of a job's text files, made once per node and kept in a file beside the
// snapshots. Local rank 0 of each node makes the file where it is not there; the node's other ranks
// wait, and all read it in place. Its name and its header hold a hash of the contents of all files
// and of the tokenizer, so a changed text or tokenizer gets a file of its own (docs/text.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <string_view>
#include <vector>

#include "ddp/ddp.h"
#include "trainer/text/token_file.h"
#include "trainer/text/tokenizer.h"

namespace ddp {

struct TokenCacheOptions {
  /// Texts (trainer/text/documents.h has the forms), or GPT-2 token files (*.bin), which are read
  /// as they are; not both.
  std::vector<std::filesystem::path> files{};
  /// The files that the tokenizer was read from; none for one that needs none.
  std::vector<std::filesystem::path> tokenizer_files{};
  /// Of the model: a token file must not have others than those below.
  std::int32_t vocabulary_size = std::numeric_limits<std::int32_t>::max();
  /// Of the cache file; made where it is not there.
  std::filesystem::path directory{};
  /// Takes one line, without a newline at its end: how long the tokens took, or that a cache file
  /// was damaged and is made anew. Left empty: stderr.
  std::function<void(std::string_view)> say{};
};

/// The tokens of all files, in order. Collective: every rank calls it with the same options.
/// However long a node takes, the ranks meet every few seconds: no collective waits longer, and one
/// that dies is noticed at once. Throws ddp::Error on every rank alike: a file that cannot be read
/// or used, a full disk, nodes whose files differ.
std::vector<TokenFile> load_tokens(const Context& context, const Tokenizer& tokenizer,
                                   const TokenCacheOptions& options);

}  // namespace ddp
