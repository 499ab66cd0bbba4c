#include "trainer/text/token_cache.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "trainer/storage_error.h"
#include "trainer/text/tokenise.h"

namespace ddp {
namespace {

using Path = std::filesystem::path;
/// Local rank 0's part of a round: looks at the token now and then, and throws when it is to stop.
using NodeTask = std::function<std::string(const std::stop_token&)>;

/// Well below any timeout of a collective and of the agent's hang detection.
constexpr std::chrono::seconds kRound{2};
/// Token files are looked through in parts of so many.
constexpr std::size_t kChunkTokens = std::size_t{1} << 18U;

void throw_if_stopped(const std::stop_token& stop) {
  if (stop.stop_requested()) {
    throw Error("stopped, since the job ends");
  }
}

/// For what all ranks know: each has come so far before any of them goes, so none sees a lost peer
/// in its place.
template <class Kind = Error>
[[noreturn]] void throw_together(const Context& context, const std::string& what) {
  try {
    context.group().barrier();
  } catch (const OperationError&) {
    // Another one has gone on already, with the same error.
  }
  throw Kind(what);
}

// The first character of a rank's result: how its work ended.
constexpr char kDone = '=';
constexpr char kFailed = '!';
constexpr char kDiskFailed = '#';

/// Every rank's result of `work` (none: empty). A rank that works does so on a thread of its own,
/// while all ranks meet round after round until the last is done: the length of a file then bounds
/// no collective. What `work` throws is thrown on every rank.
std::vector<std::string> in_rounds(const Context& context, const NodeTask& work) {
  std::promise<std::string> promise;
  auto result = promise.get_future();
  std::jthread thread;  // stopped and joined also where a collective throws
  if (work) {
    thread = std::jthread([&](const std::stop_token& stop) {
      try {
        promise.set_value(kDone + work(stop));
      } catch (const StorageError& problem) {
        promise.set_value(kDiskFailed + std::string(problem.what()));
      } catch (const std::exception& problem) {
        promise.set_value(kFailed + std::string(problem.what()));
      }
    });
  } else {
    promise.set_value({kDone});
  }
  std::string mine;  // empty while the work goes on
  while (true) {
    if (mine.empty() && result.wait_for(kRound) == std::future_status::ready) {
      mine = result.get();
    }
    context.progress().alive();
    auto all = context.group().all_gather_bytes(mine);
    if (std::any_of(all.begin(), all.end(), [](const auto& text) { return text.empty(); })) {
      continue;
    }
    for (auto& text : all) {
      if (text[0] == kFailed) {
        throw_together(context, text.substr(1));
      }
      if (text[0] == kDiskFailed) {
        throw_together<StorageError>(context, text.substr(1));
      }
      text.erase(0, 1);
    }
    return all;
  }
}

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

class Maker {
 public:
  Maker(const Context& context, const Tokenizer& tokenizer, const TokenCacheOptions& options)
      : tokenizer_(&tokenizer), options_(&options), rank_(context.rank()) {}

  /// XXH3 over all that the tokens depend on.
  [[nodiscard]] std::uint64_t key(const std::stop_token& stop) const {
    constexpr std::uint64_t kVersion = 1;  // of how tokens are made from files
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    const auto add_number = [&](std::uint64_t number) {
      XXH3_64bits_update(&state, &number, sizeof number);
    };
    const auto add_file = [&](const Path& path) {
      const MappedFile map(path);
      map.read_in_order();
      add_number(static_cast<std::uint64_t>(text_form(path)));
      add_number(map.bytes().size());
      for (auto rest = map.bytes(); !rest.empty();) {
        throw_if_stopped(stop);
        const auto part = rest.first(std::min(rest.size(), kChunkBytes));
        XXH3_64bits_update(&state, part.data(), part.size());
        rest = rest.subspan(part.size());
      }
    };
    add_number(kVersion);
    add_number(static_cast<std::uint64_t>(tokenizer_->vocabulary_size()));
    add_number(options_->tokenizer_files.size());
    std::for_each(options_->tokenizer_files.begin(), options_->tokenizer_files.end(), add_file);
    std::for_each(options_->files.begin(), options_->files.end(), add_file);
    return XXH3_64bits_digest(&state);
  }

  /// Makes the cache file unless it is there, whole.
  void make(std::uint64_t key, const std::stop_token& stop) const {
    const auto path = cache_path(key);
    if (std::filesystem::exists(path)) {
      try {
        open_token_cache(path, key, true);
        return;
      } catch (const Error& problem) {
        say(std::string(problem.what()) + "; the tokens are made anew");
      }
    }
    const auto begin = std::chrono::steady_clock::now();
    std::error_code problem;
    std::filesystem::create_directories(options_->directory, problem);
    if (problem) {
      throw Error(options_->directory.string() +
                  ": cannot make the directory: " + problem.message() + "; name another one");
    }
    // Where nodes share the directory, each of them writes under a name of its own.
    TokenCacheWriter writer(path, fmt::format("rank{}.", rank_), key,
                            tokenizer_->vocabulary_size());
    std::size_t count = 0;
    for (const auto& file : options_->files) {
      const MappedFile map(file);
      map.read_in_order();
      try {
        tokenise(text_form(file), map.text(), *tokenizer_, [&](auto tokens) {
          throw_if_stopped(stop);
          count += tokens.size();
          writer.append(tokens);
        });
      } catch (const Error& wrong) {
        throw Error(file.string() + ": " + wrong.what());
      }
    }
    writer.finish();
    if (!tokenizer_->end_of_text() && has_several_documents()) {
      say("the tokenizer has no token <|endoftext|>: nothing stands between the documents");
    }
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.1f s", taken.count());
    say(fmt::format("{}: {} tokens made from {}{}{}", path.string(), count, options_->files.size(),
                    options_->files.size() == 1 ? " file in " : " files in ", seconds));
  }

  [[nodiscard]] Path cache_path(std::uint64_t key) const {
    return options_->directory / ("tokens-" + hex(key) + ".cache");
  }

 private:
  [[nodiscard]] bool has_several_documents() const {
    return options_->files.size() > 1 || text_form(options_->files.front()) != TextForm::plain;
  }

  void say(const std::string& line) const {
    if (options_->say) {
      options_->say(line);
    } else {
      std::fprintf(stderr, "%s\n", line.c_str());
    }
  }

  const Tokenizer* tokenizer_;
  const TokenCacheOptions* options_;
  int rank_;
};

/// Before the first step: the training might get to such a token after days.
void require_all_known(const TokenFile& file, std::int32_t vocabulary_size,
                       const std::stop_token& stop) {
  std::vector<std::int32_t> tokens(kChunkTokens);
  for (std::size_t at = 0; at < file.tokens.size(); at += tokens.size()) {
    throw_if_stopped(stop);
    tokens.resize(std::min(tokens.size(), file.tokens.size() - at));
    file.map.require_whole();
    file.tokens.read(at, tokens);
    require_known(file.path, at, tokens, vocabulary_size);
  }
}

/// True for token files, false for texts. Throws on both, and on none.
bool are_token_files(const std::vector<Path>& files) {
  const auto count = std::count_if(files.begin(), files.end(),
                                   [](const Path& path) { return ending_of(path) == ".bin"; });
  if (files.empty()) {
    throw InvalidArgument("no file with text or tokens is given");
  }
  if (count != 0 && static_cast<std::size_t>(count) != files.size()) {
    throw InvalidArgument("the data must be token files (*.bin) or texts, not both");
  }
  return count != 0;
}

}  // namespace

std::vector<TokenFile> load_tokens(const Context& context, const Tokenizer& tokenizer,
                                   const TokenCacheOptions& options) {
  const bool ready_made = are_token_files(options.files);
  const Maker maker(context, tokenizer, options);
  // The other ranks of a node see the same disk, so they need not read all of it again.
  const bool works = context.local_rank() == 0;
  std::uint64_t key = 0;
  const auto keys = in_rounds(
      context,
      !works ? NodeTask() : [&](const std::stop_token& stop) { return hex(maker.key(stop)); });
  // As for any other data: a node with an old copy would train on it, and nothing would show it.
  for (std::size_t rank = 0; rank < keys.size(); ++rank) {
    if (!keys[rank].empty() && keys[rank] != keys[0]) {
      throw_together(
          context,
          fmt::format(
              "rank {} read other data than rank 0; give every node the same files and tokenizer",
              rank));
    }
  }
  key = std::stoull(keys[0], nullptr, 16);
  if (!ready_made) {
    in_rounds(
        context, !works ? NodeTask() : [&](const std::stop_token& stop) {
          maker.make(key, stop);
          return std::string();
        });
  }
  std::vector<TokenFile> files;
  // On every rank, so that one that cannot read the files says so to all.
  in_rounds(context, [&](const std::stop_token& stop) {
    if (!ready_made) {
      files.push_back(open_token_cache(maker.cache_path(key), key, false));
      return std::string();
    }
    for (const auto& path : options.files) {
      files.push_back(open_token_bin(path));
      if (works) {
        require_all_known(files.back(), options.vocabulary_size, stop);
      }
    }
    return std::string();
  });
  return files;
}

}  // namespace ddp
