// PrometheusText: a JobSnapshot in Prometheus' text format 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/), with names and units as its guide
// asks (https://prometheus.io/docs/practices/naming/): base units, _total for counters. Pure.
// docs/operations.md lists the metrics.
#pragma once

#include <string>
#include <string_view>

#include "agent/operations/job_snapshot.h"

namespace ddprun {

inline constexpr const char* kPrometheusType = "text/plain; version=0.0.4; charset=utf-8";

/// What is not known has no sample. Ends with a newline.
std::string prometheus_text(const JobSnapshot& snapshot);

/// A label's value as it stands between quotes: backslash, quote and line end are escaped; bytes
/// that are no UTF-8 become U+FFFD, since a scraper refuses the whole text for one of them.
std::string label_text(std::string_view value);

}  // namespace ddprun
