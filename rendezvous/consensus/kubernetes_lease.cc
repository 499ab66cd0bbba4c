#include "rendezvous/consensus/kubernetes_lease.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"
#include "rendezvous/consensus/base64.h"
#include "rendezvous/consensus/deflate.h"
#include "rendezvous/consensus/leader_record_text.h"
#include "rendezvous/consensus/lease_name.h"

namespace ddprun {
namespace {

using nlohmann::json;
using std::chrono::seconds;

constexpr char kOurs[] = "ddprun.io/";
/// Of a state: a job of 100,000 nodes has that much.
constexpr std::size_t kStateBytesMax = 32 * 1'024 * 1'024;
/// Of a revision that somebody else may have written: there is always one more.
constexpr std::int64_t kRevisionMax = 1LL << 62;
/// spec.leaseDurationSeconds and the like are int32.
constexpr std::int64_t kLastsMax = 2'147'483'647;

/// An object within another; an empty one where there is none.
json object_at(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_object() ? *found : json::object();
}

/// Empty where there is none: Kubernetes leaves out what is empty.
std::string string_at(const json& object, const std::string& name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// 0: there is none, or none that can be.
std::int64_t count_at(const json& object, const char* name) {
  const auto found = object.find(name);
  const auto number =
      found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
  return number <= static_cast<std::uint64_t>(kLastsMax) ? static_cast<std::int64_t>(number) : 0;
}

/// Of `size` digits; none where it is anything else.
std::optional<int> digits(std::string_view text, std::size_t at, std::size_t size) {
  const auto number = parse_number<unsigned>(text.substr(at, size));
  return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

/// As wall_time_text writes it, and the API server does. Another form is as old as time.
WallTime wall_time_of(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00.000000Z";
  if (text.size() != kForm.size() || text.back() != 'Z') {
    return {};
  }
  const auto year = digits(text, 0, 4);
  const auto month = digits(text, 5, 2);
  const auto day = digits(text, 8, 2);
  const auto hour = digits(text, 11, 2);
  const auto minute = digits(text, 14, 2);
  const auto second = digits(text, 17, 2);
  const auto fraction = digits(text, 20, 6);
  if (!year || !month || !day || !hour || !minute || !second || !fraction) {
    return {};
  }
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) {
    return {};
  }
  return std::chrono::sys_days(date) + std::chrono::hours(*hour) + std::chrono::minutes(*minute) +
         seconds(*second) + std::chrono::microseconds(*fraction);
}

/// What somebody else wrote there stays: it may be of use to them.
Error not_of_the_job(const std::string& what, const std::string& name) {
  return {"the Lease holds no " + what + " of this job, but something else", name,
          "delete that Lease, or give the job another --rdzv-id"};
}

/// Of the annotations of one object.
class OurAnnotations {
 public:
  explicit OurAnnotations(const json& annotations) : annotations_(annotations) {}

  [[nodiscard]] std::string text(const char* name) const {
    return string_at(annotations_, std::string(kOurs) + name);
  }
  /// One that is empty counts as none.
  [[nodiscard]] bool has(const char* name) const { return !text(name).empty(); }
  /// A revision is larger than 0. 0: there is none, or none that can be.
  [[nodiscard]] std::int64_t number(const char* name) const {
    const auto read = parse_number<std::int64_t>(text(name));
    return read && *read > 0 && *read <= kRevisionMax ? *read : 0;
  }

 private:
  const json& annotations_;
};

/// Whatever is there: null where a part is none of ours, and what that part is called.
const char* read_view(const OurAnnotations& ours, JobLease& lease) {
  ServiceView& view = lease.view;
  if (ours.has("leader")) {
    view.leader = leader_record_of(ours.text("leader"));
    view.leader_revision = ours.number("leader-revision");
    lease.leader_lease = ours.text("leader-lease");
    if (!view.leader || view.leader_revision == 0 || lease.leader_lease.empty() ||
        lease.leader_lasts.count() <= 0) {
      return "coordinator";
    }
  }
  if (ours.has("term")) {
    const auto newest = term_of(ours.text("term"));
    view.term_revision = ours.number("term-revision");
    if (!newest || view.term_revision == 0) {
      return "term";
    }
    view.newest_term = *newest;
  }
  if (ours.has("state")) {
    const auto packed = from_base64(ours.text("state"));
    auto state = packed ? inflated(*packed, kStateBytesMax) : std::nullopt;
    view.state_revision = ours.number("state-revision");
    lease.state_lease = ours.text("state-lease");
    lease.state_lasts = seconds(ours.number("state-lease-seconds"));
    if (!state || view.state_revision == 0 || lease.state_lasts.count() <= 0 ||
        lease.state_lasts.count() > kLastsMax) {
      return "state";
    }
    view.state = std::move(*state);
  }
  return nullptr;
}

/// An annotation that is not ours is somebody else's and stays.
json annotations_of(const JobLease& lease, const std::string& job_id, json annotations) {
  const auto put = [&annotations](const char* name, const std::string& value) {
    annotations[std::string(kOurs) + name] = value;
  };
  put("job", job_id);
  put("writer", lease.writer);
  put("revision", std::to_string(lease.revision));
  const ServiceView& view = lease.view;
  if (view.leader) {
    put("leader", text_of(*view.leader));
    put("leader-revision", std::to_string(view.leader_revision));
    put("leader-lease", lease.leader_lease);
  }
  if (view.term_revision != 0) {
    put("term", std::to_string(number(view.newest_term)));
    put("term-revision", std::to_string(view.term_revision));
  }
  if (view.state_revision != 0) {
    put("state", base64(deflated(view.state)));
    put("state-revision", std::to_string(view.state_revision));
    put("state-lease", lease.state_lease);
    put("state-lease-seconds", std::to_string(lease.state_lasts.count()));
  }
  return annotations;
}

/// Names and values, as the API server counts them.
std::size_t bytes_of(const json& annotations) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : annotations.items()) {
    bytes += name.size() + value.get_ref<const std::string&>().size();
  }
  return bytes;
}

/// As client-go's leader election leaves it (leaderelection.go, release): nobody holds it, and
/// whoever comes need not wait.
json spec_of(const JobLease& lease, json spec) {
  const bool is_held = lease.view.leader.has_value();
  spec["holderIdentity"] = is_held ? lease.holder : "";
  spec["leaseDurationSeconds"] = is_held ? lease.leader_lasts.count() : 1;
  spec["acquireTime"] = wall_time_text(lease.acquired);
  spec["renewTime"] = wall_time_text(lease.renewed);
  // An int32 of the API, and anybody may have written the largest.
  constexpr std::int64_t kTransitionsMax = std::numeric_limits<std::int32_t>::max();
  spec["leaseTransitions"] = std::min(lease.transitions, kTransitionsMax);
  return spec;
}

}  // namespace

/// As Go writes a MicroTime of UTC; fmt's own form of times depends on its version.
std::string wall_time_text(WallTime time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss<std::chrono::microseconds> clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count(),
                     clock.subseconds().count());
}

/// Nobody but an administrator makes one that is empty: to let agents update it without the right
/// to create any.
Result<JobLease> job_lease_of(const json& object, const std::string& name) {
  JobLease lease;
  json metadata = object_at(object, "metadata");
  json annotations = object_at(metadata, "annotations");
  json spec = object_at(object, "spec");
  lease.resource_version = string_at(metadata, "resourceVersion");
  if (lease.resource_version.empty()) {
    return Error{"Kubernetes answers with an object that has no version", name, {}};
  }
  lease.holder = string_at(spec, "holderIdentity");
  lease.leader_lasts = seconds(count_at(spec, "leaseDurationSeconds"));
  lease.acquired = wall_time_of(string_at(spec, "acquireTime"));
  lease.renewed = wall_time_of(string_at(spec, "renewTime"));
  lease.transitions = count_at(spec, "leaseTransitions");
  const OurAnnotations ours(annotations);
  lease.writer = ours.text("writer");
  lease.revision = ours.number("revision");
  if (lease.revision == 0 && !lease.holder.empty()) {
    return Error{"'" + printable(lease.holder) + "' holds the Lease, and is no ddprun", name,
                 "delete that Lease, or give the job another --rdzv-id"};
  }
  if (const char* const bad = read_view(ours, lease); bad != nullptr) {
    return not_of_the_job(bad, name);
  }
  // What is there was written by a transaction, which has one.
  const bool has_any = lease.view.leader || lease.view.term_revision > 0 || ours.has("state");
  if (lease.revision == 0 && has_any) {
    return not_of_the_job("revision", name);
  }
  for (auto at = annotations.begin(); at != annotations.end();) {
    const bool stays = at->is_string() && !at.key().starts_with(kOurs);
    at = stays ? std::next(at) : annotations.erase(at);
  }
  metadata["annotations"] = std::move(annotations);
  metadata.erase("managedFields");  // the server keeps what is left out
  lease.others = json{{"metadata", std::move(metadata)}, {"spec", std::move(spec)}}.dump(
      -1, ' ', false, json::error_handler_t::replace);
  return lease;
}

/// With the uid that was read, so that a Lease which was deleted meanwhile is not made anew: a PUT
/// may create Leases.
Result<std::string> body_of(const JobLease& lease, const std::string& job_id) {
  DDP_CHECK(lease.revision > 0 && !lease.writer.empty(), "what is written names its writer");
  json rest = lease.others.empty() ? json::object() : json::parse(lease.others, nullptr, false);
  DDP_CHECK(rest.is_object(), "the rest of the object was an object");
  json metadata = object_at(rest, "metadata");
  const json others = object_at(metadata, "annotations");
  json annotations = annotations_of(lease, job_id, others);
  if (const std::size_t bytes = bytes_of(annotations); bytes > kAnnotationBytesMax) {
    // Whoever has the larger part is asked to give way.
    if (const std::size_t theirs = bytes_of(others); theirs > kAnnotationBytesMax / 2) {
      return Error{fmt::format("{} bytes of annotations that are not ddprun's leave no room in the "
                               "Lease for the state of this job: Kubernetes keeps {} of all",
                               theirs, kAnnotationBytesMax),
                   lease_name(job_id), "remove them, or give the job another --rdzv-id"};
    }
    return Error{fmt::format("the state of this job would make its Lease {} bytes of annotations, "
                             "and Kubernetes keeps {} of them",
                             bytes, kAnnotationBytesMax),
                 lease_name(job_id), "use --rdzv-backend etcd or c10d for a job of so many nodes"};
  }
  metadata["name"] = lease_name(job_id);
  metadata["annotations"] = std::move(annotations);
  json labels = object_at(metadata, "labels");
  labels["app.kubernetes.io/managed-by"] = "ddprun";
  metadata["labels"] = std::move(labels);
  // An id and a host name may hold any bytes, and JSON is UTF-8.
  return json{{"apiVersion", "coordination.k8s.io/v1"},
              {"kind", "Lease"},
              {"metadata", std::move(metadata)},
              {"spec", spec_of(lease, object_at(rest, "spec"))}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace ddprun
