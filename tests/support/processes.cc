#include "tests/support/processes.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/support/event_wait.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

std::filesystem::path proc(pid_t pid) {
  return "/proc/" + std::to_string(pid);
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (parsed.ec == std::errc{} && parsed.ptr == name.data() + name.size()) {
      pids.push_back(pid);
    }
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

struct Stat {
  char state = '?';
  pid_t parent = 0;
  std::uint64_t started = 0;  ///< in ticks since the machine was
};

/// The fields after the command name, which is in parentheses and may hold any character.
Stat stat_of(pid_t pid) {
  const std::string text = read_file(proc(pid) / "stat");
  const auto end = text.rfind(") ");
  Stat stat;
  if (end != std::string::npos) {
    std::istringstream fields(text.substr(end + 2));
    fields >> stat.state >> stat.parent;
    // proc(5) counts them from 1: the parent is field 4, the start time field 22.
    std::string skipped;
    for (int field = 5; field < 22; ++field) {
      fields >> skipped;
    }
    fields >> stat.started;
  }
  return stat;
}

}  // namespace

std::vector<pid_t> descendants_of(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t pid : all_processes()) {
    children.emplace(stat_of(pid).parent, pid);
  }
  std::vector<pid_t> found{root};
  for (std::size_t at = 0; at < found.size(); ++at) {
    const auto [first, last] = children.equal_range(found[at]);
    for (auto child = first; child != last; ++child) {
      found.push_back(child->second);
    }
  }
  found.erase(found.begin());
  return found;
}

bool process_waits(pid_t pid) {
  return stat_of(pid).state == 'S';
}

bool stop_process(pid_t pid) {
  return pid > 0 && ::kill(pid, SIGSTOP) == 0 &&
         wait_until([&] { return stat_of(pid).state == 'T'; });
}

bool process_runs(pid_t pid) {
  const char state = stat_of(pid).state;
  return state != '?' && state != 'Z' && state != 'X';
}

std::string environment_of(pid_t pid, const std::string& name) {
  // A leading NUL makes the first entry look like the others.
  const std::string all = '\0' + read_file(proc(pid) / "environ");
  const std::string wanted = '\0' + name + "=";
  const auto at = all.find(wanted);
  return at == std::string::npos ? "" : std::string(all.c_str() + at + wanted.size());
}

std::vector<pid_t> processes_with(const std::string& name, const std::string& value) {
  std::vector<pid_t> found;
  for (const pid_t pid : all_processes()) {
    if (pid != ::getpid() && environment_of(pid, name) == value && process_runs(pid)) {
      found.push_back(pid);
    }
  }
  return found;
}

std::string command_line_of(pid_t pid) {
  std::string text = read_file(proc(pid) / "cmdline");
  if (!text.empty()) {
    text.pop_back();
  }
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

/// A daemon that the worker made has the agent for a parent, too, but began later. Its number may
/// be the lower one, for numbers wrap round.
pid_t worker_of(pid_t root, int rank) {
  pid_t oldest = 0;
  std::uint64_t started = 0;
  for (const pid_t pid : descendants_of(root)) {
    const Stat stat = stat_of(pid);
    if (environment_of(pid, "RANK") == std::to_string(rank) && process_runs(pid) &&
        environment_of(stat.parent, "RANK").empty() && (oldest == 0 || stat.started < started)) {
      oldest = pid;
      started = stat.started;
    }
  }
  return oldest;
}

std::vector<std::string> descriptors_of(pid_t pid) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(proc(pid) / "fd", ignored)) {
    const auto target = std::filesystem::read_symlink(entry.path(), ignored);
    found.push_back(entry.path().filename().string() + " -> " + target.string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<int> listening_ports_of(pid_t pid) {
  constexpr char kListening[] = "0A";
  std::set<std::string> own;
  for (const std::string& descriptor : descriptors_of(pid)) {
    const std::string mark = "socket:[";
    if (const auto at = descriptor.find(mark); at != std::string::npos) {
      own.insert(descriptor.substr(at + mark.size(), descriptor.size() - at - mark.size() - 1));
    }
  }
  std::vector<int> ports;
  for (const char* table : {"tcp", "tcp6"}) {
    std::ifstream lines(proc(pid) / "net" / table);
    std::string line;
    std::getline(lines, line);  // the heading
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state, queues, timer, retransmits, user, probes, inode;
      words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >>
          probes >> inode;
      if (state == kListening && own.contains(inode)) {
        ports.push_back(std::stoi(local.substr(local.find(':') + 1), nullptr, 16));
      }
    }
  }
  return ports;
}

}  // namespace ddprun::test
