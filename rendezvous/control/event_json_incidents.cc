// The part of EventJson that writes incidents, and where the time of the job went.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/control/event_json_lines.h"
#include "rendezvous/control/event_values.h"
#include "rendezvous/membership/incident.h"
#include "rendezvous/membership/ledger_text.h"

namespace ddprun {

using event_values::ms;
using event_values::name_of;
using event_values::or_null;
using nlohmann::ordered_json;

/// An incident has two lines: one when it happens, and one when the job is back at work, with all
/// parts of its downtime. The second comes again if workers report their first step after that.
void EventJson::on_incidents(Lines& lines, bool over) {
  const JobHistory& record = lines.membership.record();
  const int count = record.incidents_count();
  if (record.incidents().empty()) {
    incidents_told_ = incidents_closed_ = count;  // a message that brings them may have no room
    return;
  }
  // A voter brought a history that others have written, longer or shorter than the one before. Its
  // newest incident, by which this coordinator began, has another number from here on.
  if (count > incidents_told_ + 1 || count < incidents_told_) {
    incidents_told_ = incidents_closed_ = std::max(count - 1, 0);
  }
  if (count > incidents_told_) {
    if (incidents_closed_ < count - 1) {
      close_incident(lines, count - 1);  // its attempt ended before all of it was known
    }
    DDP_CHECK(count > 0, "an incident that is kept is counted");
    const Incident& incident = record.incidents().back();
    lines.add("incident", incident.attempt,
              {{"incident", count},
               {"kind", name_of(incident.kind)},
               {"reason", incident.reason},
               {"spent_restart", incident.spent_restart},
               {"detect_ms", ms(incident.parts.detect)},
               {"stop_ms", ms(incident.parts.stop)},
               {"lost_steps", or_null(incident.lost.steps)},
               {"lost_ms", or_null(incident.lost.time)}});
    incidents_told_ = count;
    incidents_closed_ = count - 1;
    closed_with_step_ = false;
  }
  DDP_CHECK(incidents_closed_ <= incidents_told_, "an incident closes after it was written");
  if (!(record.ledger().recovered() || over)) {
    return;
  }
  const bool has_step = record.incidents().back().parts.first_step.has_value();
  if (incidents_closed_ < count || (has_step && !closed_with_step_)) {
    close_incident(lines, count);
    closed_with_step_ = has_step;
  }
}

/// `which` counts from 1 over the whole job; only the newest are kept.
void EventJson::close_incident(Lines& lines, int which) {
  const JobHistory& record = lines.membership.record();
  const auto& kept = record.incidents();
  DDP_CHECK(which >= 1 && which <= record.incidents_count(), "an incident has its number");
  incidents_closed_ = which;
  const auto from_the_end = static_cast<std::size_t>(record.incidents_count() - which);
  if (from_the_end >= kept.size()) {
    return;
  }
  const Incident& incident = kept[kept.size() - 1 - from_the_end];
  if (!incident.next_attempt) {
    return;  // the job ended with it
  }
  ordered_json fields = {
      {"incident", which}, {"kind", name_of(incident.kind)}, {"reason", incident.reason}};
  fields.update(event_values::downtime_of(incident));
  lines.add("incident_closed", incident.next_attempt, fields);
  add_ledger(lines);
  const std::string lost = lost_work_text(incident.lost, true);
  for_people_ =
      fmt::format("incident {}: {}; down {}{}; {}", which, incident.reason,
                  break_down_text(incident.parts), lost.empty() ? "" : ", " + lost,
                  accounts_text(record.ledger().accounts(lines.now), record.incidents_count()));
}

// --- Accounts -------------------------------------------------------------------------------

void EventJson::add_ledger(Lines& lines) const {
  const JobHistory& record = lines.membership.record();
  ordered_json fields = event_values::accounts_of(record.ledger().accounts(lines.now));
  fields["attempts"] = record.attempts();
  fields["incidents"] = record.incidents_count();
  fields["restarts_used"] = lines.membership.restarts_used();
  lines.add("ledger", fields);
}

}  // namespace ddprun
