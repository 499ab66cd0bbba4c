// Text lists: the small languages of the output options: stream maps, ranks, filter texts; and how
// a message shows what was given.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/job_spec.h"
#include "rendezvous/base/result.h"

namespace ddprun {

/// "3" for all local ranks, or "0:1,1:2" by local rank (one digit each, torchrun's rule; a rank
/// named twice has the last value). `where` names the option in messages.
Result<StreamMap> parse_stream_map(std::string_view text, const std::string& where);

/// "0,2": local ranks; an empty text is an empty list.
Result<std::vector<int>> parse_ranks(std::string_view text, const std::string& where);

/// The parts between commas, without blanks round them; empty ones are left out.
std::vector<std::string> split_commas(std::string_view text);

/// The same, but ",," stands for a comma within a part.
std::vector<std::string> split_filters(std::string_view text);

/// 'text'
std::string in_quotes(std::string_view text);

}  // namespace ddprun
