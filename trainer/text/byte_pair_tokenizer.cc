#include "trainer/text/byte_pair_tokenizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>
#include <utility>

#include "ddp/error.h"
#include "rendezvous/base/utf8.h"
#include "trainer/text/mapped_file.h"
#include "trainer/text/word_cache.h"
#include "trainer/text/word_splitter.h"

namespace ddp {
namespace {

using Tokens = std::vector<std::int32_t>;
using Path = std::filesystem::path;

/// Merges the pairs of one word. A word of n bytes takes n log n steps: its parts are a linked
/// list, and a heap holds every pair that may merge, the lowest rank first, of equals the leftmost.
/// A pair whose parts have merged with others meanwhile is passed over when its turn comes.
class WordMerger {
 public:
  explicit WordMerger(const BytePairVocabulary& vocabulary) : vocabulary_(&vocabulary) {}

  /// Appends the word's tokens.
  void merge(std::string_view word, Tokens& tokens) {
    if (word.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
      throw Error(fmt::format("a word of {} bytes is too long to be encoded", word.size()));
    }
    parts_.clear();
    heap_.clear();
    const auto size = static_cast<std::int32_t>(word.size());
    for (std::int32_t i = 0; i < size; ++i) {
      const auto byte = static_cast<unsigned char>(word[static_cast<std::size_t>(i)]);
      parts_.push_back({vocabulary_->byte_tokens[byte], i - 1, i + 1 < size ? i + 1 : kNone});
    }
    for (std::int32_t i = 0; i + 1 < size; ++i) {
      offer(i);
    }
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), comes_later);
      const Pair pair = heap_.back();
      heap_.pop_back();
      join(pair);
    }
    for (std::int32_t at = size > 0 ? 0 : kNone; at != kNone; at = part(at).next) {
      tokens.push_back(part(at).token);
    }
  }

 private:
  static constexpr std::int32_t kNone = -1;
  struct Part {
    std::int32_t token = kNone;  ///< kNone: it has become a part of the one before
    std::int32_t before = kNone;
    std::int32_t next = kNone;
  };
  struct Pair {
    std::int32_t rank = 0;
    std::int32_t left = 0;
    std::int32_t token = 0;  ///< what the two become
  };

  static bool comes_later(const Pair& a, const Pair& b) {
    return std::pair(a.rank, a.left) > std::pair(b.rank, b.left);
  }

  Part& part(std::int32_t at) { return parts_[static_cast<std::size_t>(at)]; }

  [[nodiscard]] const Merge* merge_at(std::int32_t left) {
    const auto next = part(left).next;
    return next == kNone ? nullptr : vocabulary_->merges.find(part(left).token, part(next).token);
  }

  void offer(std::int32_t left) {
    if (const Merge* merge = merge_at(left)) {
      heap_.push_back({merge->rank, left, merge->token});
      std::push_heap(heap_.begin(), heap_.end(), comes_later);
    }
  }

  void join(const Pair& pair) {
    Part& left = part(pair.left);
    if (left.token == kNone) {
      return;
    }
    const Merge* merge = merge_at(pair.left);
    // What the two parts become says which two they were: parts only grow, and never move.
    if (merge == nullptr || merge->token != pair.token) {
      return;
    }
    Part& right = part(left.next);
    left.token = pair.token;
    left.next = right.next;
    right.token = kNone;
    if (left.next != kNone) {
      part(left.next).before = pair.left;
      offer(pair.left);
    }
    if (left.before != kNone) {
      offer(left.before);
    }
  }

  const BytePairVocabulary* vocabulary_;
  std::vector<Part> parts_;
  std::vector<Pair> heap_;
};

/// Finds added tokens: of those that begin leftmost, the longest.
class AddedTokens {
 public:
  AddedTokens(const std::vector<AddedToken>& added, bool normalized) {
    for (const auto& token : added) {
      if (token.normalized == normalized) {
        by_first_byte_[static_cast<unsigned char>(token.text[0])].push_back(&token);
        any_ = true;
      }
    }
    for (auto& tokens : by_first_byte_) {
      std::sort(tokens.begin(), tokens.end(),
                [](const auto* a, const auto* b) { return a->text.size() > b->text.size(); });
    }
  }

  /// The first in `text`, and where it begins; null and the size of the text when there is none.
  [[nodiscard]] std::pair<const AddedToken*, std::size_t> find(std::string_view text) const {
    for (std::size_t at = 0; any_ && at < text.size(); ++at) {
      for (const auto* token : by_first_byte_[static_cast<unsigned char>(text[at])]) {
        if (text.substr(at).starts_with(token->text)) {
          return {token, at};
        }
      }
    }
    return {nullptr, text.size()};
  }

 private:
  std::array<std::vector<const AddedToken*>, 256> by_first_byte_;
  bool any_ = false;
};

}  // namespace

struct BytePairTokenizer::Encoder {
  explicit Encoder(BytePairVocabulary of)
      : vocabulary(std::move(of)),
        turns{AddedTokens(vocabulary.added, false), AddedTokens(vocabulary.added, true)},
        merger(vocabulary) {}

  /// Cuts at the added tokens of this turn; what is between them goes to the next.
  void encode(std::string_view text, std::size_t turn, Tokens& tokens) {
    if (turn == turns.size()) {
      encode_plain(text, tokens);
      return;
    }
    while (!text.empty()) {
      const auto [added, at] = turns[turn].find(text);
      encode(text.substr(0, at), turn + 1, tokens);
      if (added != nullptr) {
        tokens.push_back(added->token);
      }
      text.remove_prefix(at + (added != nullptr ? added->text.size() : 0));
    }
  }

  void encode_plain(std::string_view text, Tokens& tokens) {
    while (!text.empty()) {
      const auto well_formed = text.substr(0, ddprun::utf8_prefix_length(text));
      for (std::size_t at = 0; at < well_formed.size();) {
        const auto end = splitter.word_end(well_formed, at);
        encode_word(well_formed.substr(at, end - at), tokens);
        at = end;
      }
      text.remove_prefix(well_formed.size());
      const auto malformed = text.substr(0, ddprun::malformed_prefix_length(text));
      if (!malformed.empty()) {
        encode_word(malformed, tokens);
        text.remove_prefix(malformed.size());
      }
    }
  }

  void encode_word(std::string_view word, Tokens& tokens) {
    const auto known = cache.find(word);
    if (!known.empty()) {
      tokens.insert(tokens.end(), known.begin(), known.end());
      return;
    }
    const auto first = tokens.size();
    merger.merge(word, tokens);
    cache.add(word, std::span(tokens).subspan(first));
  }

  BytePairVocabulary vocabulary;
  std::array<AddedTokens, 2> turns;
  std::mutex mutex;  ///< guards what is below: each of them remembers something
  WordSplitter splitter;
  WordMerger merger;
  WordCache cache;
};

BytePairTokenizer::BytePairTokenizer(BytePairVocabulary vocabulary)
    : encoder_(std::make_unique<Encoder>(std::move(vocabulary))) {}
BytePairTokenizer::~BytePairTokenizer() = default;

std::unique_ptr<BytePairTokenizer> BytePairTokenizer::load(const Path& path) {
  const bool is_folder = std::filesystem::is_directory(path);
  const Path folder = is_folder ? path : path.parent_path();
  const bool in_two_files =
      is_folder ? !std::filesystem::exists(folder / "tokenizer.json")
                : path.filename() == "vocab.json" || path.filename() == "merges.txt";
  std::vector<Path> files = {is_folder ? folder / "tokenizer.json" : path};
  if (in_two_files) {
    files = {folder / "vocab.json", folder / "merges.txt"};
  }
  if (is_folder && in_two_files && !std::filesystem::exists(files[0])) {
    throw Error(path.string() +
                ": holds neither tokenizer.json nor vocab.json and merges.txt; name a folder or a "
                "file with a byte-pair tokenizer");
  }
  std::vector<MappedFile> maps;
  std::vector<NamedText> texts;
  for (const auto& file : files) {
    texts.push_back({file.string(), maps.emplace_back(file).text()});
  }
  auto tokenizer = std::make_unique<BytePairTokenizer>(
      in_two_files ? parse_vocabulary_and_merges(texts[0], texts[1])
                   : parse_tokenizer_json(texts[0]));
  tokenizer->files_ = std::move(files);
  return tokenizer;
}

std::int32_t BytePairTokenizer::vocabulary_size() const {
  return static_cast<std::int32_t>(encoder_->vocabulary.tokens.size());
}

Tokens BytePairTokenizer::encode(std::string_view text) const {
  Tokens tokens;
  tokens.reserve(text.size() / 3);  // English has four bytes to a token
  const std::lock_guard lock(encoder_->mutex);
  encoder_->encode(text, 0, tokens);
  return tokens;
}

std::string BytePairTokenizer::decode(std::span<const std::int32_t> tokens) const {
  const auto& known = encoder_->vocabulary.tokens;
  std::string text;
  for (const auto token : tokens) {
    if (token < 0 || token >= vocabulary_size() || known[static_cast<std::size_t>(token)].empty()) {
      throw InvalidArgument(fmt::format("token {} is not in the vocabulary", token));
    }
    text += known[static_cast<std::size_t>(token)];
  }
  return text;
}

std::optional<std::int32_t> BytePairTokenizer::end_of_text() const {
  return encoder_->vocabulary.end_of_text;
}

}  // namespace ddp
