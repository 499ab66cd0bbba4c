// A LeaderRecord, and a term, as texts that lie in a service: JSON, which people can read. Pure.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/node/service_question.h"

namespace ddprun {

std::string text_of(const LeaderRecord& record);
/// None: it is of somebody else. An agent connects to the addresses in it.
std::optional<LeaderRecord> leader_record_of(const std::string& text);
/// None: it is no term that a coordinator can have; the next one counts on from it.
std::optional<Term> term_of(const std::string& text);

}  // namespace ddprun
