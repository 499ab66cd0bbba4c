// What the command lines of all ranks must have in common. Ranks that differ in it would wait for
// each other in different collectives, or mix gradients of different trainings in silence.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ddp/ddp.h"
#include "trainer/gpt2/gpt2_source.h"
#include "trainer/options.h"

namespace ddp {

/// One option by its value, not by its words: a default and the same value given are no difference.
struct AgreedOption {
  std::string name;
  std::string value;
  friend bool operator==(const AgreedOption&, const AgreedOption&) = default;
};
/// In the same order on every rank of one command; the first one is the command.
using AgreedOptions = std::vector<AgreedOption>;

AgreedOptions agreed_options(const LinearOptions& options);
AgreedOptions agreed_options(const Gpt2Options& options, const Gpt2Source& source);
AgreedOptions agreed_options(const ResnetOptions& options);
AgreedOptions agreed_options(const MessagePassingOptions& options);

/// "--lr is 0.2 on rank 1 and 0.1 on rank 0", of the first that differs; empty when none does.
/// Pure.
std::string disagreement(const std::vector<std::string>& encoded_by_rank);
/// For disagreement(): every rank's, as one text.
std::string encode(const AgreedOptions& options);

/// The first collective of a training. Throws DoNotRetry on every rank, with the same sentence,
/// when the options of any rank are not those of rank 0.
void require_agreement(const Context& context, const AgreedOptions& mine);

/// Throws Error where a rank's data have another fingerprint than rank 0's: a node with an old copy
/// of a file would otherwise train on it, and nothing would show it, since the gradients of all
/// ranks are mixed at each step. `same`: what to give every node, such as "the same files".
/// Collective.
void require_same_data(const Context& context, const std::string& fingerprint,
                       std::string_view same);

}  // namespace ddp
