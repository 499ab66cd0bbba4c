#include "trainer/agreement.h"

#include <fmt/core.h>

#include <charconv>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "ddp/error.h"
#include "trainer/gpt2/config.h"

namespace ddp {
namespace {

/// The shortest text that reads back as the same bits.
template <class Number>
requires std::integral<Number> || std::floating_point<Number> std::string text_of(Number value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value);
  return {text, end.ptr};
}

template <class Number>
std::string text_of(const std::optional<Number>& value) {
  return value ? text_of(*value) : "none";
}

/// No option has it in it: a command line ends each word with it.
constexpr char kEnd = '\0';

/// As it is given; on ranks with other devices the word means something else for each.
std::string word_of(Precision precision) {
  return precision == Precision::bf16 ? "bf16" : precision == Precision::f32 ? "f32" : "not given";
}

/// How the ranks share the work: a rank with other collectives than the rest would wait for ever.
void append_parallel(AgreedOptions& agreed, const ParallelOptions& options) {
  agreed.push_back({"--zero", options.zero ? "given" : "not given"});
  agreed.push_back(
      {"--grad-compression", options.compression == Compression::bf16 ? "bf16" : "none"});
  std::string balance = options.balance.automatic ? "auto" : "";
  for (const double weight : options.balance.weights) {
    balance += (balance.empty() ? "" : ",") + text_of(weight);
  }
  agreed.push_back({"--balance", balance.empty() ? "not given" : balance});
}

/// Up to the next end, which is taken off too.
std::string_view take(std::string_view& rest) {
  const auto end = rest.find(kEnd);
  const auto text = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return text;
}

/// Of the first option that is not the same in both.
std::string difference(std::string_view mine, std::string_view first, std::size_t rank) {
  while (!mine.empty() && !first.empty()) {
    const auto name = take(mine);
    const auto name_of_first = take(first);
    const auto value = take(mine);
    const auto value_of_first = take(first);
    if (name == name_of_first && value != value_of_first) {
      return fmt::format("{} is {} on rank {} and {} on rank 0", name, value, rank, value_of_first);
    }
  }
  // Another list for the same command: another build.
  return fmt::format("rank {} has other options than rank 0", rank);
}

}  // namespace

// Left out is what may differ: places on the disk, where metrics go, how many snapshots are kept.
// How often a rank saves and logs is in: both are collectives.

AgreedOptions agreed_options(const LinearOptions& options) {
  const double rate = options.learning_rate.value_or(options.data ? kDataRate : kToyRate);
  return {{"the command", "train linear"},
          {"TOTAL_EPOCHS", text_of(options.total_epochs)},
          {"SAVE_EVERY", text_of(options.save_every)},
          {"--batch-size", text_of(options.batch_size)},
          {"--lr", text_of(rate)},
          {"--momentum", text_of(options.momentum)},
          {"--seed", text_of(options.seed)},
          {"--data", options.data ? "given" : "not given"},
          {"--target", options.target.value_or("not given")}};
}

AgreedOptions agreed_options(const Gpt2Options& options, const Gpt2Source& source) {
  const auto context = static_cast<std::int64_t>(source.config.context);
  AgreedOptions agreed = {
      {"the command", options.generate ? "train gpt2 --generate" : "train gpt2"},
      // A folder may be elsewhere on each node. Its weights are rank 0's on all of them.
      {"--model", describe(source.config) + (source.weights ? " of a folder" : "")},
      {"--seq-length", text_of(options.sequence_length.value_or(context))}};
  if (options.generate) {
    return agreed;  // rank 0 alone writes, so the rest may differ
  }
  const AgreedOptions training = {{"--lr", text_of(options.rate(source.config.channels))},
                                  {"--batch-size", text_of(options.batch_size)},
                                  {"--accumulation", text_of(options.accumulation)},
                                  {"--num-epochs", text_of(options.num_epochs)},
                                  {"--precision", word_of(options.precision)},
                                  {"--max-steps", text_of(options.max_steps)},
                                  {"--seed", text_of(options.seed)},
                                  {"--warmup-steps", text_of(options.warmup_steps)},
                                  {"--weight-decay", text_of(options.adamw.weight_decay)},
                                  {"--clip", text_of(options.adamw.clip)},
                                  {"--validation-share", text_of(options.validation_share)},
                                  {"--ckpt-freq", text_of(options.snapshots.ckpt_freq)},
                                  {"--log-freq", text_of(options.outputs.log_freq)}};
  agreed.insert(agreed.end(), training.begin(), training.end());
  append_parallel(agreed, options.parallel);
  return agreed;
}

AgreedOptions agreed_options(const ResnetOptions& options) {
  AgreedOptions agreed = {{"the command", "train resnet"},
                          {"--model", text_of(options.model)},
                          {"--stem", options.large_stem ? "large" : "small"},
                          {"--lr", text_of(options.learning_rate)},
                          {"--batch-size", text_of(options.batch_size)},
                          {"--num-epochs", text_of(options.epochs)},
                          {"--seed", text_of(options.seed)},
                          {"--momentum", text_of(options.momentum)},
                          {"--weight-decay", text_of(options.weight_decay)},
                          {"--ckpt-freq", text_of(options.checkpoint_every)}};
  append_parallel(agreed, options.parallel);
  return agreed;
}

AgreedOptions agreed_options(const MessagePassingOptions& /*options*/) {
  return {{"the command", "train message-passing"}};
}

std::string encode(const AgreedOptions& options) {
  std::string text;
  for (const auto& [name, value] : options) {
    text += name + kEnd + value + kEnd;
  }
  return text;
}

/// One sentence is enough: who mends the first difference finds the next one at the next start.
std::string disagreement(const std::vector<std::string>& encoded_by_rank) {
  for (std::size_t rank = 1; rank < encoded_by_rank.size(); ++rank) {
    if (encoded_by_rank[rank] != encoded_by_rank[0]) {
      return difference(encoded_by_rank[rank], encoded_by_rank[0], rank);
    }
  }
  return "";
}

void require_agreement(const Context& context, const AgreedOptions& mine) {
  const auto found = disagreement(context.group().all_gather_bytes(encode(mine)));
  if (!found.empty()) {
    throw DoNotRetry(found + "; give every node the same options");
  }
}

void require_same_data(const Context& context, const std::string& fingerprint,
                       std::string_view same) {
  const auto all = context.group().all_gather_bytes(fingerprint);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) {
      throw Error(
          fmt::format("rank {} read other data than rank 0; give every node {}", rank, same));
    }
  }
}

}  // namespace ddp
