#include "launcher/hosts/hosts_run.h"

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/output/console.h"
#include "agent/output/log_filter.h"
#include "agent/process/descriptor_limit.h"
#include "agent/process/guardian.h"
#include "agent/process/orphans.h"
#include "agent/process/signals.h"
#include "launcher/exit_status.h"
#include "launcher/hosts/branches.h"
#include "launcher/hosts/host_states.h"
#include "rendezvous/membership/rendezvous_status.h"

namespace ddprun {

namespace asio = boost::asio;

namespace {

using Clock = std::chrono::steady_clock;

/// When one agent has ended in failure, those of the others end by themselves, as a rule. One that
/// never was part of the job may wait for it still.
constexpr std::chrono::seconds kEndByThemselvesMax{5};
/// A signal that comes again so soon is the same wish (docs/preemption.md).
constexpr std::chrono::milliseconds kSameWish{500};
/// From a first signal until the hosts are named that have not ended: saving takes its time, and an
/// ssh that hangs says nothing.
constexpr std::chrono::seconds kWaitNamedAfter{3};
/// From a second signal until the connections close: an agent needs a second at most to end.
constexpr std::chrono::seconds kEndNowMax{2};
/// From then until what is left here is killed.
constexpr std::chrono::seconds kHangUpMax{4};
constexpr std::chrono::seconds kKillMax{1};

class HostsRun {
 public:
  explicit HostsRun(const HostsPlan& plan)
      : plan_(plan),
        states_(static_cast<int>(plan.labels.size()), plan.least),
        out_(io_, STDOUT_FILENO),
        err_(io_, STDERR_FILENO),
        signals_(io_, {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2},
                 [this](int number) { user_signal(number); }),
        guardian_(io_),
        timer_(io_),
        named_(io_) {
    // Each ssh has three pipes here.
    (void)raise_descriptor_limit();
    accept_early_signals();
    if (guardian_fd() >= 0) {
      guardian_.assign(guardian_fd());
      guardian_.async_wait(asio::posix::stream_descriptor::wait_read,
                           [this](boost::system::error_code error) {
                             if (!error) {
                               stop();
                             }
                           });
    }
    // One host: its bytes as they come. Several: whole lines, each with its host's name.
    if (plan.labels.size() > 1) {
      for (const std::string& label : plan.labels) {
        lines_.emplace_back("[" + label + "] ", std::vector<std::string>{});
        lines_.emplace_back("[" + label + "] ", std::vector<std::string>{});
      }
    }
    for (const Notice& notice : plan.notices) {
      say(notice.text);
    }
    branches_.emplace(io_, plan.start, plan.environment,
                      Branch::Events{[this](const FromHost& message) { take(message); },
                                     [this] { finish(); }, [this] { return full(); }});
  }

  /// Ends when all is told and shown, or by stop(): by a guardian that was killed, or by a user who
  /// does not wait.
  int run() {
    io_.run();
    for (std::uint32_t host = 0; host < plan_.labels.size(); ++host) {
      states_.lost(host);  // no word of it will come
    }
    const int code = states_.exit_code();
    return code == kExitSuccess && output_is_lost_ ? kExitFailure : code;
  }

 private:
  void say(const std::string& sentence) { err_.write("ddprun: " + sentence + "\n"); }

  /// Whichever is full holds up both streams of all hosts: they come through one pipe for each.
  [[nodiscard]] Console* full() { return out_.full() ? &out_ : err_.full() ? &err_ : nullptr; }

  [[nodiscard]] Console& console(bool is_stderr) { return is_stderr ? err_ : out_; }
  [[nodiscard]] LogFilter& lines(std::uint32_t host, bool is_stderr) {
    return lines_[2 * std::size_t{host} + (is_stderr ? 1 : 0)];
  }

  void take(const FromHost& message) {
    if (const auto* output = std::get_if<HostOutput>(&message)) {
      show(*output);
      return;
    }
    // Its last line first: nothing more comes of it.
    const std::uint32_t host = host_of(message);
    show_unfinished(host);
    if (const auto* ended = std::get_if<HostEnded>(&message)) {
      states_.ended(host, ended->code);
    } else {
      states_.lost(host);
      // Those whose connections were closed here are named already.
      if (!hung_up_) {
        const Error& why = std::get<HostLost>(message).why;
        say(Error{why.where.empty() ? why.what : why.where + ": " + why.what, plan_.labels[host],
                  why.todo}
                .sentence());
      }
    }
    end_the_others_if_needed();
  }

  void show(const HostOutput& output) {
    // A single host: its bytes as they come, a progress bar too.
    if (lines_.empty()) {
      console(output.is_stderr).write(output.bytes);
      note_lost_output();
      return;
    }
    std::string shown;
    std::string filtered;
    lines(output.host, output.is_stderr).feed(output.bytes, shown, filtered);
    console(output.is_stderr).write(shown);
    note_lost_output();
  }

  /// A log's disk may have room again, so it is tried anew with each line. A reader that has gone
  /// does not come back: as with any program in a pipe, that is the end.
  void note_lost_output() {
    const int failure = out_.failure();
    if (failure == 0 || std::exchange(output_is_lost_, true)) {
      return;
    }
    const bool for_good = out_.is_broken();
    say(std::string("stdout: cannot be written to: ") + std::strerror(failure) +
        (for_good ? "; all hosts are asked to save and end"
                  : "; what does not fit there is lost, and the job goes on"));
    if (for_good) {
      user_signal(SIGTERM);
    }
  }

  /// Its newline is not ours to add: the next line goes on behind it, as with any program.
  void show_unfinished(std::uint32_t host) {
    for (const bool is_stderr : {false, true}) {
      if (!lines_.empty()) {
        std::string shown;
        std::string filtered;
        lines(host, is_stderr).finish(shown, filtered);
        console(is_stderr).write(shown);
      }
    }
  }

  /// SIGINT ends a job without saving: too few hosts are left to take a step together.
  void end_the_others_if_needed() {
    // Where a user wants the end now the timer is for that.
    if (states_.all_settled() || asked_twice_) {
      return;
    }
    // A lost host tells the others nothing, and a fixed job would wait for another in its place.
    if (states_.is_hopeless() && !states_.has_failed()) {
      end_the_others();
    } else if ((states_.is_hopeless() || states_.is_stranded()) &&
               !std::exchange(ends_soon_, true)) {
      after(kEndByThemselvesMax, [this] { end_those_that_stay(); });
    }
  }

  void end_the_others() {
    if (!std::exchange(others_end_, true)) {
      states_.dismiss_running();
      branches_->signal(SIGINT);
    }
  }

  /// They have not ended by themselves.
  void end_those_that_stay() {
    // One whose last lines nobody has read yet is about to end.
    if (full() != nullptr) {
      after(kEndByThemselvesMax, [this] { end_those_that_stay(); });
      return;
    }
    const bool is_over = states_.is_over();
    for (std::uint32_t host = 0; host < plan_.labels.size(); ++host) {
      if (!states_.is_settled(host) && states_.is_stranded() && !others_end_) {
        say(plan_.labels[host] +
            (is_over ? ": the job is over without it, so its agent is ended"
                     : ": too few hosts are left for the job, so its agent is ended"));
      }
    }
    end_the_others();
  }

  /// What it means is the agents' decision, and the same as if each had got it by itself. A third
  /// one adds nothing: the end is bounded by then.
  void user_signal(int number) {
    const auto now = Clock::now();
    // Nobody is left to send it to. What waits is a console that nobody reads.
    if (!branches_ || finishing_) {
      stop();
      return;
    }
    branches_->signal(number);
    // A node that leaves is no end of the job, and what its agent does at a second one is its own.
    if (number == SIGUSR2) {
      return;
    }
    if (!first_signal_) {
      first_signal_ = now;
      name_who_is_waited_for();
    } else if (now - *first_signal_ >= kSameWish && !std::exchange(asked_twice_, true)) {
      // The agents end by their own second signal, and say how. What does not is cut off.
      after(kEndNowMax, [this] {
        say("the connections are closed to hosts that have not ended: " + names_of_running());
        states_.dismiss_running();
        hung_up_ = true;
        branches_->hang_up();
        after(kHangUpMax, [this] { stop(); });
      });
    }
  }

  void name_who_is_waited_for() {
    named_.expires_after(kWaitNamedAfter);
    named_.async_wait([this](boost::system::error_code error) {
      if (!error && !states_.all_settled() && !asked_twice_) {
        say("waiting for " + names_of_running() +
            " to end; a second signal ends what is left at once");
      }
    });
  }

  [[nodiscard]] std::string names_of_running() const {
    std::vector<std::string> names;
    for (std::uint32_t host = 0; host < plan_.labels.size(); ++host) {
      if (!states_.is_settled(host)) {
        names.push_back(plan_.labels[host]);
      }
    }
    return fold_names(std::move(names));
  }

  /// In the place of what was to come before: each use is a step nearer to the end.
  void after(std::chrono::milliseconds time, std::function<void()> act) {
    timer_.expires_after(time);
    timer_.async_wait([act = std::move(act)](boost::system::error_code error) {
      if (!error) {
        act();
      }
    });
  }

  /// All hosts are settled, and every process that led to them is gone.
  void finish() {
    finishing_ = true;
    timer_.cancel();
    named_.cancel();
    out_.on_flushed([this] { err_.on_flushed([this] { io_.stop(); }); });
  }

  /// The ssh processes die, and with them what they lead to.
  void stop() {
    (void)kill_descendants({}, kKillMax);
    io_.stop();
  }

  const HostsPlan& plan_;
  HostStates states_;
  asio::io_context io_;
  Console out_;
  Console err_;
  SignalSource signals_;
  asio::posix::stream_descriptor guardian_;
  asio::steady_timer timer_;
  asio::steady_timer named_;      ///< name_who_is_waited_for()
  std::vector<LogFilter> lines_;  // of each host, stdout and stderr
  std::optional<Branches> branches_;
  std::optional<Clock::time_point> first_signal_;
  bool ends_soon_ = false;   ///< the timer is for those that stay
  bool others_end_ = false;  ///< they were told to
  bool asked_twice_ = false;
  bool hung_up_ = false;
  bool output_is_lost_ = false;
  bool finishing_ = false;
};

}  // namespace

int run_hosts(const HostsPlan& plan) {
  return HostsRun(plan).run();
}

}  // namespace ddprun
