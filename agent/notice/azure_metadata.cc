#include "agent/notice/azure_metadata.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

using nlohmann::json;

constexpr std::chrono::milliseconds kPause{1'000};
constexpr std::chrono::milliseconds kPauseAfterNonsense{5'000};
constexpr std::chrono::seconds kPatienceToEnable{150};
/// Resource names have at most 80 characters, those of instances of a scale set a number more.
constexpr std::size_t kNameBytesMax = 128;

/// Names of resources are the same in upper and lower case.
bool same_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

/// Empty where it has no such text.
std::string text_of(const json& event, const char* name) {
  const auto found = event.find(name);
  return found != event.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool concerns(const json& event, const std::string& vm) {
  const auto resources = event.find("Resources");
  return resources != event.end() && resources->is_array() &&
         std::any_of(resources->begin(), resources->end(), [&](const json& one) {
           return one.is_string() && same_name(one.get<std::string>(), vm);
         });
}

/// NotBefore is empty for an event that has begun: this agent may have started after its notice.
std::string clause_of(const json& event, const std::string& type) {
  const std::string when = text_of(event, "NotBefore");
  return "azure: " + quoted_from(type) + " of the VM " +
         (when.empty() ? "now" : "not before " + quoted_from(when));
}

/// The first notice, or the first remark; of one VM there is hardly more than one event. What event
/// it is, each says (`has_no_type`: not all do).
Heard meaning_of(const json& events, const std::string& vm, bool& has_no_type) {
  constexpr std::string_view kEndsProcesses[] = {"Preempt", "Terminate", "Reboot", "Redeploy"};
  Heard heard{.pause = kPause};
  for (const json& event : events) {
    // What is no event is passed over: the next version of the service may list others, too.
    if (!event.is_object() || !concerns(event, vm)) {
      continue;
    }
    const std::string type = text_of(event, "EventType");
    if (type.empty()) {
      has_no_type = true;
      continue;
    }
    if (std::find(std::begin(kEndsProcesses), std::end(kEndsProcesses), type) !=
        std::end(kEndsProcesses)) {
      heard.notice = clause_of(event, type);
      return heard;
    }
    if (heard.remark.empty()) {
      heard.remark = clause_of(event, type) + "; the job goes on";
    }
  }
  return heard;
}

}  // namespace

/// Two services of one host, each with versions of its own.
HttpCall AzureMetadata::next() const {
  if (name_.empty()) {
    return {"GET",
            "/metadata/instance/compute/name?api-version=2021-02-01&format=text",
            {{"Metadata", "true"}}};
  }
  HttpCall request{
      "GET", "/metadata/scheduledevents?api-version=2020-07-01", {{"Metadata", "true"}}};
  if (!is_enabled_) {
    request.patience = kPatienceToEnable;
  }
  return request;
}

Heard AzureMetadata::hear(const HttpReply& answer) {
  if (name_.empty()) {
    const std::string name(trimmed(answer.body));
    const bool is_name = !name.empty() && name.size() <= kNameBytesMax &&
                         std::none_of(name.begin(), name.end(), is_control);
    if (answer.status != 200 || !is_name) {
      return {.complaint = unexpected(next(), answer), .pause = kPauseAfterNonsense};
    }
    name_ = name;
    return {};
  }
  // An answer without events is {"DocumentIncarnation": N, "Events": []}.
  const json told = json::parse(answer.body, nullptr, false);
  const auto events = told.is_object() ? told.find("Events") : told.end();
  if (answer.status != 200 || events == told.end() || !events->is_array()) {
    return {.complaint = unexpected(next(), answer), .pause = kPauseAfterNonsense};
  }
  is_enabled_ = true;
  bool has_no_type = false;
  Heard heard = meaning_of(*events, name_, has_no_type);
  DDP_CHECK(heard.complaint.empty(), "what could be read is no complaint");
  if (has_no_type) {
    heard.complaint = unexpected(next(), answer);
  }
  return heard;
}

}  // namespace ddprun
