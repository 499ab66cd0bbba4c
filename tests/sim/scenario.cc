#include "tests/sim/scenario.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <vector>

#include "tests/sim/agent_shell.h"
#include "tests/sim/cluster.h"
#include "tests/sim/narrator.h"

namespace ddprun::sim {
namespace {

/// Longer than any scenario.
constexpr Duration kUntilHealed = seconds(100'000);

/// "1.5" or "1.5s".
Duration duration_of(const std::string& text) {
  return Duration(static_cast<std::int64_t>(std::stod(text) * 1e9));
}

class Player {
 public:
  std::string run(const std::string& line);
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  using Words = std::vector<std::string>;

  void job(const Words& words);
  void on_nodes(const Words& words, const std::function<void(int)>& action);
  void strike(FaultKind kind, int machine, int span = 1, Duration lasts = {});
  void cut(FaultKind kind, const Words& words);
  bool obey(const Words& words);

  SimOptions options_ = scripted_job();
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<Narrator> narrator_;
  std::string error_;
};

/// "job nodes=3 min=2": nodes are those that run workers.
void Player::job(const Words& words) {
  std::map<std::string, std::string> given;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    given[words[i].substr(0, equals)] = words[i].substr(equals + 1);
  }
  for (const auto& [name, value] : given) {
    if (name == "nodes") {
      options_.agents = options_.max_nodes = options_.min_nodes = std::stoi(value);
    }
  }
  for (const auto& [name, value] : given) {
    if (name == "min") {
      options_.min_nodes = std::stoi(value);
    } else if (name == "max") {
      options_.max_nodes = std::stoi(value);
    } else if (name == "witnesses") {
      options_.witnesses = std::stoi(value);
    } else if (name == "endpoints") {
      options_.endpoints = std::stoi(value);
    } else if (name == "restarts") {
      options_.max_restarts = std::stoi(value);
    } else if (name == "last-call") {
      options_.last_call = duration_of(value);
    } else if (name == "ranked") {
      options_.ranked = true;
    } else if (name == "service") {
      options_.service = true;
      options_.fresh_coordinators = false;
    } else if (name == "saves") {
      options_.policy = true;
    } else if (name.starts_with("timeout-n")) {
      options_.other_timeouts[machine_of_host(name.substr(8))] = duration_of(value);
    } else if (name != "nodes") {
      error_ = "no such word of a job: " + name;
    }
  }
  cluster_ = std::make_unique<Cluster>(options_, std::vector<Fault>{});
  narrator_ = std::make_unique<Narrator>(*cluster_);
  cluster_->watch_decisions(narrator_.get());
}

void Player::on_nodes(const Words& words, const std::function<void(int)>& action) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i].front() == 'n') {
      action(machine_of_host(words[i]));
    }
  }
}

void Player::strike(FaultKind kind, int machine, int span, Duration lasts) {
  cluster_->strike({cluster_->now(), kind, machine, span, lasts});
}

/// A group of neighbours, "n1 n2", from all others until "heal".
void Player::cut(FaultKind kind, const Words& words) {
  strike(kind, machine_of_host(words[1]), static_cast<int>(words.size()) - 1, kUntilHealed);
}

bool Player::obey(const Words& words) {
  static const std::map<std::string, FaultKind> kFaults{
      {"start", FaultKind::start},      {"fail", FaultKind::worker_failure},
      {"kill", FaultKind::death},       {"power-off", FaultKind::vanishing},
      {"terminate", FaultKind::signal}, {"preempt", FaultKind::preemption},
      {"drain", FaultKind::leave},
  };
  static const std::map<std::string, FaultKind> kCuts{
      {"cut", FaultKind::cut}, {"mute", FaultKind::silent_cut}, {"deafen", FaultKind::deaf_cut}};
  const std::string& verb = words.front();
  if (const auto fault = kFaults.find(verb); fault != kFaults.end()) {
    on_nodes(words, [&](int machine) { strike(fault->second, machine); });
  } else if (const auto kind = kCuts.find(verb); kind != kCuts.end() && words.size() > 1) {
    cut(kind->second, words);
  } else if (verb == "heal") {
    cluster_->network().heal_all();
  } else if (verb == "stall" && words.size() == 3) {
    strike(FaultKind::agent_stop, machine_of_host(words[1]), 1, duration_of(words[2]));
  } else if (verb == "service-away" && words.size() == 2 && options_.service) {
    strike(FaultKind::service_away, 0, 1, duration_of(words[1]));
  } else if (verb == "service-lost" && words.size() >= 3 && options_.service) {
    strike(FaultKind::service_cut, machine_of_host(words[1]), static_cast<int>(words.size()) - 2,
           duration_of(words.back()));
  } else if (verb == "finish") {
    on_nodes(words, [&](int machine) { cluster_->agent_of(machine)->workers().finish(); });
  } else if (verb == "run" && words.size() == 2) {
    cluster_->run_until(cluster_->now() + duration_of(words[1]));
  } else {
    return false;
  }
  return true;
}

/// What follows from one command.
std::string Player::run(const std::string& line) {
  std::istringstream in(line);
  Words words;
  for (std::string word; in >> word;) {
    words.push_back(word);
  }
  if (words.front() == "job" && !cluster_) {
    job(words);
    return {};
  }
  const bool is_of_all_known = std::all_of(words.begin() + 1, words.end(), [&](const auto& word) {
    return word.front() != 'n' || machine_of_host(word) < options_.machines();
  });
  if (!cluster_ || !is_of_all_known || !obey(words)) {
    error_ = "this is no command, or of a node that the job does not have: " + line;
    return {};
  }
  const std::string& violation = cluster_->violation();
  if (!violation.empty() && !cluster_->observer().begun_twice()) {
    error_ = "after \"" + line + "\": " + violation;
  }
  return narrator_->take();
}

}  // namespace

Played play(const std::string& scenario) {
  Player player;
  Played played;
  std::istringstream in(scenario);
  for (std::string line; std::getline(in, line);) {
    const bool is_command = !line.empty() && line.front() != '#' && line.front() != ' ';
    if (line.empty() || line.front() != ' ') {
      played.text += line + "\n";
    }
    if (is_command && player.error().empty()) {
      played.text += player.run(line);
    }
  }
  played.error = player.error();
  return played;
}

}  // namespace ddprun::sim
