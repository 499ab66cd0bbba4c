#include "trainer/metrics/metrics_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ddp {
namespace {

/// Fields stay in the order in which they are given, for people.
using Json = nlohmann::ordered_json;

/// An experiment's name comes from the command line and may be no UTF-8; a log line is no place to
/// fail over it.
std::string line_of(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string run_line(const RunRecord& run, double time) {
  return line_of({{"event", "run"},
                  {"time", time},
                  {"attempt", run.attempt},
                  {"experiment", run.experiment},
                  {"rank", run.rank},
                  {"world_size", run.world_size},
                  {"unit", run.unit},
                  {"total_steps", run.total_steps}});
}

std::string step_line(const StepRecord& record, std::int64_t attempt, double time) {
  return line_of({{"event", "step"},
                  {"time", time},
                  {"attempt", attempt},
                  {"step", record.step},
                  {"epoch", record.epoch},
                  {"loss", record.loss},
                  {"learning_rate", record.learning_rate},
                  {"units_per_second", record.units_per_second},
                  {"data_s", record.data_s},
                  {"forward_s", record.forward_s},
                  {"backward_s", record.backward_s},
                  {"update_s", record.update_s},
                  {"sync_s", record.sync_s},
                  {"snapshot_s", record.snapshot_s},
                  {"memory_bytes", record.memory_bytes}});
}

std::string validation_line(const ValidationRecord& record, std::int64_t attempt, double time) {
  return line_of({{"event", "validation"},
                  {"time", time},
                  {"attempt", attempt},
                  {"step", record.step},
                  {"epoch", record.epoch},
                  {"loss", record.loss},
                  {"accuracy", record.accuracy ? Json(*record.accuracy) : Json()},
                  {"seconds", record.seconds}});
}

std::int64_t last_attempt(std::string_view text) {
  std::int64_t last = -1;
  while (!text.empty()) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) {
      break;  // torn
    }
    const auto parsed = Json::parse(text.substr(0, end), nullptr, false);
    text.remove_prefix(end + 1);
    if (parsed.is_object() && parsed.contains("attempt") && parsed["attempt"].is_number_integer()) {
      last = std::max(last, parsed["attempt"].get<std::int64_t>());
    }
  }
  return last;
}

}  // namespace ddp
