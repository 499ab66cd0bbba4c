#include "ranks.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <stdexcept>
#include <typeinfo>

namespace ddp_test {
namespace {

using std::chrono::steady_clock;

int result_pipe = -1;  // in a forked rank

void write_pipe(const std::string& text) {
  if (::write(result_pipe, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    ::_exit(99);
  }
}

[[noreturn]] void be_rank(int rank, int world_size, const std::string& folder,
                          const Ranks::Body& body) {
  const std::string rank_text = std::to_string(rank);
  const std::string size_text = std::to_string(world_size);
  ::setenv("OMPI_COMM_WORLD_RANK", rank_text.c_str(), 1);
  ::setenv("OMPI_COMM_WORLD_LOCAL_RANK", rank_text.c_str(), 1);
  ::setenv("OMPI_COMM_WORLD_SIZE", size_text.c_str(), 1);
  ::setenv("OMPI_COMM_WORLD_LOCAL_SIZE", size_text.c_str(), 1);
  ::setenv("PMIX_SERVER_TMPDIR", folder.c_str(), 1);
  ::setenv("PMIX_NAMESPACE", "test", 1);
  ::unsetenv("RANK");
  ::unsetenv("WORLD_SIZE");
  int code = 0;
  std::string text;
  try {
    text = body(rank);
  } catch (const std::exception& error) {
    int status = 0;
    char* name = abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status);
    text = std::string(name != nullptr ? name : "?") + ": " + error.what();
    code = 1;
  }
  write_pipe("R" + text);
  ::_exit(code);  // not through the test program's own ends
}

}  // namespace

Ranks::Ranks(int world_size, const Body& body) {
  for (int rank = 0; rank < world_size; ++rank) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (const Process& other : processes_) {
        ::close(other.pipe);
      }
      ::close(ends[0]);
      result_pipe = ends[1];
      be_rank(rank, world_size, folder_.path().string(), body);
    }
    ::close(ends[1]);
    processes_.push_back({});
    processes_.back().pid = pid;
    processes_.back().pipe = ends[0];
  }
}

Ranks::~Ranks() {
  for (Process& process : processes_) {
    if (process.pid > 0) {
      ::kill(process.pid, SIGKILL);
      ::waitpid(process.pid, nullptr, 0);
    }
    ::close(process.pipe);
  }
}

void Ranks::event() {
  write_pipe("E");
}

bool Ranks::read_some(steady_clock::time_point deadline) {
  std::vector<pollfd> items;
  for (const Process& process : processes_) {
    items.push_back({.fd = process.ended ? -1 : process.pipe, .events = POLLIN, .revents = 0});
  }
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
  if (left <= 0 || ::poll(items.data(), items.size(), static_cast<int>(left)) <= 0) {
    return false;
  }
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (items[i].revents == 0) {
      continue;
    }
    Process& process = processes_[i];
    char bytes[4096];
    const ssize_t got = ::read(process.pipe, bytes, sizeof(bytes));
    process.ended = got <= 0;
    for (ssize_t k = 0; k < got; ++k) {
      if (process.outcome.text.empty() && bytes[k] == 'E') {
        ++process.events;
      } else {
        process.outcome.text += bytes[k];
        process.outcome.time = steady_clock::now();
      }
    }
  }
  return true;
}

bool Ranks::await_event(int rank) {
  Process& process = processes_[static_cast<std::size_t>(rank)];
  const auto deadline = steady_clock::now() + std::chrono::seconds(60);
  while (process.events == 0) {
    if (process.ended || !read_some(deadline)) {
      return false;
    }
  }
  --process.events;
  return true;
}

Outcome Ranks::outcome_so_far(int rank) const {
  return processes_[static_cast<std::size_t>(rank)].outcome;
}

void Ranks::read_more() {
  read_some(steady_clock::now() + std::chrono::milliseconds(100));
}

void Ranks::signal(int rank, int signal) {
  ::kill(processes_[static_cast<std::size_t>(rank)].pid, signal);
}

std::vector<Outcome> Ranks::finish(std::chrono::seconds limit) {
  const auto deadline = steady_clock::now() + limit;
  const auto busy = [this] {
    for (const Process& process : processes_) {
      if (!process.ended) {
        return true;
      }
    }
    return false;
  };
  while (busy() && read_some(deadline)) {
  }
  std::vector<Outcome> outcomes;
  for (Process& process : processes_) {
    if (!process.ended) {
      ::kill(process.pid, SIGKILL);
    }
    int status = 0;
    ::waitpid(process.pid, &status, 0);
    process.pid = -1;
    if (WIFEXITED(status)) {
      process.outcome.exit_code = WEXITSTATUS(status);
    } else {
      process.outcome.signal = WTERMSIG(status);
    }
    if (!process.outcome.text.empty()) {
      process.outcome.text.erase(0, 1);  // the R
    }
    outcomes.push_back(process.outcome);
  }
  return outcomes;
}

void require_on_all_ranks(int world_size, const std::string& expected, const Ranks::Body& body) {
  Ranks ranks(world_size, body);
  const std::vector<Outcome> outcomes = ranks.finish();
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    INFO("rank " << rank << " of " << world_size << ", signal " << outcomes[rank].signal);
    CHECK(outcomes[rank].text == expected);
    CHECK(outcomes[rank].exit_code == 0);
  }
}

void expect(bool condition, const std::string& what) {
  if (!condition) {
    throw std::runtime_error("expected: " + what);
  }
}

}  // namespace ddp_test
