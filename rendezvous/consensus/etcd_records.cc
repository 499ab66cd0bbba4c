#include "rendezvous/consensus/etcd_records.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/consensus/base64.h"
#include "rendezvous/consensus/etcd_error.h"
#include "rendezvous/consensus/leader_record_text.h"

namespace ddprun {
namespace {

using nlohmann::json;

/// Protocol buffers in JSON write 64 bits as a text, and leave out a 0.
std::int64_t number_at(const json& object, const char* name) {
  const std::string text = text_at(object, name);
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

json range(const std::string& key) {
  return {{"requestRange", {{"key", base64(key)}}}};
}

/// Not its value, which may be large.
json revision_question(const std::string& key) {
  return {{"requestRange", {{"key", base64(key)}, {"keys_only", true}}}};
}

json put(const std::string& key, const std::string& value, const ServiceLease& lease = {}) {
  json request{{"key", base64(key)}, {"value", base64(value)}};
  if (!lease.empty()) {
    request["lease"] = lease;
  }
  return {{"requestPut", std::move(request)}};
}

json erase(const std::string& key) {
  return {{"requestDeleteRange", {{"key", base64(key)}}}};
}

/// The key was last written in that revision; 0: there is none.
json unchanged(const std::string& key, std::int64_t revision) {
  return {{"key", base64(key)},
          {"target", "MOD"},
          {"result", "EQUAL"},
          {"mod_revision", std::to_string(revision)}};
}

/// What somebody else wrote there stays: it may be of use to them.
Error not_ours(const char* what, const std::string& key) {
  return {std::string("etcd holds no ") + what + " of this job there, but something else", key,
          "delete that key, or give the job another --rdzv-id"};
}

/// Of one range of a transaction's answer.
struct Entry {
  std::string value;
  std::int64_t revision = 0;
};

/// None: there is no such key. The error is of an answer that etcd never gives.
Result<std::optional<Entry>> entry_of(const json& answer, std::size_t place) {
  const Error bad = etcd_unknown_form("etcd answers in an unknown form");
  const auto responses = answer.find("responses");
  if (responses == answer.end() || !responses->is_array() || responses->size() <= place) {
    return bad;
  }
  const json& one = (*responses)[place];
  if (!one.is_object() || !one.contains("response_range") || !one["response_range"].is_object()) {
    return bad;
  }
  const json& found = one["response_range"];
  const auto all = found.find("kvs");
  if (all == found.end() || (all->is_array() && all->empty())) {
    return std::optional<Entry>();
  }
  if (!all->is_array() || !all->front().is_object()) {
    return bad;
  }
  const json& entry = all->front();
  const auto value = from_base64(text_at(entry, "value"));
  if (!value) {
    return bad;
  }
  return std::optional(Entry{*value, number_at(entry, "mod_revision")});
}

}  // namespace

/// A job's id has no slash, so no job's keys are below another's.
EtcdKeys::EtcdKeys(const std::string& job_id) {
  DDP_CHECK(!job_id.empty(), "a job has a name");
  const std::string prefix = "ddprun/" + job_id + "/";
  leader = prefix + "leader";
  term = prefix + "term";
  state = prefix + "state";
}

/// A transaction without conditions: what it reads is of one moment.
json read_question(const EtcdKeys& keys) {
  return {{"success", {range(keys.leader), range(keys.term), range(keys.state)}}};
}

Result<ServiceView> view_of(const EtcdKeys& keys, const json& answer) {
  ServiceView view;
  const auto leader = entry_of(answer, 0);
  const auto term = entry_of(answer, 1);
  const auto state = entry_of(answer, 2);
  for (const auto* one : {&leader, &term, &state}) {
    if (!*one) {
      return one->error();
    }
  }
  if (*leader) {
    view.leader = leader_record_of((*leader)->value);
    view.leader_revision = (*leader)->revision;
    if (!view.leader) {
      return not_ours("coordinator", keys.leader);
    }
  }
  if (*term) {
    const auto newest = term_of((*term)->value);
    if (!newest) {
      return not_ours("term", keys.term);
    }
    view.newest_term = *newest;
    view.term_revision = (*term)->revision;
  }
  if (*state) {
    view.state = (*state)->value;
    view.state_revision = (*state)->revision;
  }
  return view;
}

/// The conditions stand first. One that only looks reads something: etcd wants a request. Where
/// they do not hold, revisions_now() reads what did.
json transaction_question(const EtcdKeys& keys, const ServiceTransaction& transaction) {
  json compare = json::array();
  if (transaction.leader_is) {
    compare.push_back(unchanged(keys.leader, *transaction.leader_is));
  }
  if (transaction.term_is) {
    compare.push_back(unchanged(keys.term, *transaction.term_is));
  }
  if (transaction.state_is) {
    compare.push_back(unchanged(keys.state, *transaction.state_is));
  }
  json success = json::array();
  if (transaction.leader) {
    success.push_back(put(keys.leader, text_of(*transaction.leader), transaction.leader_lease));
  }
  if (transaction.term) {
    success.push_back(put(keys.term, std::to_string(number(*transaction.term))));
  }
  if (transaction.state) {
    success.push_back(put(keys.state, *transaction.state, transaction.state_lease));
  }
  if (transaction.erases_leader) {
    success.push_back(erase(keys.leader));
  }
  if (transaction.erases_job) {
    success.push_back(erase(keys.state));
    success.push_back(erase(keys.term));
  }
  if (success.empty()) {
    success.push_back(range(keys.term));
  }
  return {{"compare", std::move(compare)},
          {"success", std::move(success)},
          {"failure", {revision_question(keys.leader), revision_question(keys.state)}}};
}

Result<RevisionsNow> revisions_now(const json& answer) {
  const auto leader = entry_of(answer, 0);
  const auto state = entry_of(answer, 1);
  if (!leader || !state) {
    return leader ? state.error() : leader.error();
  }
  return RevisionsNow{*leader ? (*leader)->revision : 0, *state ? (*state)->revision : 0};
}

std::string text_at(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool has_succeeded(const json& answer) {
  const auto found = answer.find("succeeded");
  return found != answer.end() && found->is_boolean() && found->get<bool>();
}

std::int64_t revision_of(const json& answer) {
  const auto header = answer.find("header");
  return header != answer.end() && header->is_object() ? number_at(*header, "revision") : 0;
}

}  // namespace ddprun
