#include "agent/agent.h"

#include <spdlog/logger.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <utility>

#include "agent/agent_state.h"
#include "agent/asked.h"
#include "agent/attempt_store.h"
#include "agent/follower_options.h"
#include "agent/host/host.h"
#include "agent/local_workers.h"
#include "agent/notice/notice_watch.h"
#include "agent/operations/operations.h"
#include "agent/operations/take_snapshot.h"
#include "agent/output/console.h"
#include "agent/output/log_layout.h"
#include "agent/output/status_display.h"
#include "agent/output/summary.h"
#include "agent/process/guardian.h"
#include "agent/process/orphans.h"
#include "agent/process/service_notifier.h"
#include "agent/process/signals.h"
#include "agent/process/worker_environment.h"
#include "agent/unable.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/control/event_log_file.h"
#include "rendezvous/control/follower.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using agent::Action;
using agent::Event;
using agent::State;

/// How long what the workers left behind may take to die: as long as after an attempt.
constexpr std::chrono::milliseconds kDescendantsBound{1'000};
/// How long an agent that was asked twice waits for what its coordinator makes of it.
constexpr std::chrono::milliseconds kAnswerBound{1'000};

/// What an event brings along for the actions that it leads to.
struct Cause {
  const World* world = nullptr;           ///< assigned
  const message::Stop* order = nullptr;   ///< stop_ordered
  Result<JobSummary>* outcome = nullptr;  ///< concluded
  int signal = 0;                         ///< asked, leave_asked, leave_again
};

class Agent : private FollowerHandler {
 public:
  Agent(const JobSpec& spec, LogLayout layout, std::shared_ptr<EventLogFile> event_log,
        std::shared_ptr<spdlog::logger> log)
      : spec_(spec),
        layout_(std::move(layout)),
        event_log_(std::move(event_log)),
        log_(std::move(log)),
        out_(io_, STDOUT_FILENO),
        err_(io_, STDERR_FILENO),
        board_(io_, err_, STDERR_FILENO, log_),
        signals_(io_, signals_for(spec), [this](int number) { on_signal(number); }),
        guardian_(io_),
        search_over_(io_),
        notices_(io_, spec, std::bind_front(&Agent::heed, this, spec.on_notice), log_),
        notifier_(io_, spec.service_manager, log_),
        workers_(io_, spec, layout_, Consoles{out_, err_}, host_name(), workers_hooks(), log_),
        follower_(io_, follower_options(io_, spec, event_log_), *this, coordinator_hooks(), log_),
        operations_(io_, operations_hooks(), log_) {}

  Result<JobSummary> run() {
    accept_early_signals();
    watch_guardian();
    if (const auto opened = workers_.open_timers(); !opened) {
      return opened.error();
    }
    if (const auto opened = operations_.open(spec_.job_id, spec_.metrics); !opened) {
      return opened.error();
    }
    follower_.start();
    // One thread for all: PR_SET_PDEATHSIG ties a worker to the one that forks (docs/processes.md).
    io_.run();
    // From here on a signal would only end this process before its outcome is written.
    hold_back(signals_for(spec_));
    DDP_CHECK(state_ == State::over, "the loop ended before the job did");
    DDP_CHECK(outcome_.has_value(), "what is over has an outcome");
    return *outcome_;
  }

 private:
  // ---- where events come from ---------------------------------------------------------------

  void on_following() override {
    asked_.followed();
    notifier_.joined();
    take(Event::followed);
  }
  void on_assigned(const World& world) override {
    asked_.assigned();
    take(Event::assigned, {.world = &world});
  }
  void on_stop(const message::Stop& order) override {
    asked_.ordered(order.how, order.signal, order.reason);
    take(Event::stop_ordered, {.order = &order});
  }
  void on_finished(const JobSummary& summary) override { conclude(summary); }
  void on_leave_asked() override { on_signal(SIGUSR2); }
  void on_drain_answered(const std::string& why) override { operations_.drain_answered(why); }
  void on_waiting(const RendezvousStatus& table) override { board_.show(table); }
  void on_lost(const Error& why) override {
    log_->info("{}", why.sentence());
    board_.clear();
    if (asked_.lost(std::chrono::steady_clock::now(), state_ == State::serving)) {
      take(Event::asked, {.signal = asked_.order_signal()});
    }
    if (state_ == State::asked && !outlives_its_coordinator(spec_)) {
      take(Event::nobody_to_ask);
    }
    take(Event::lost);
  }
  /// What was asked for counts more than why the search for a coordinator failed.
  void on_failed(const Error& why) override {
    if (seeks_to_ask()) {
      log_->info("{}", why.sentence());
      give_up_asking();
    } else if (state_ == State::asked_now) {
      take(Event::nobody_to_ask);
    } else {
      conclude(why);
    }
  }

  CoordinatorHooks coordinator_hooks() {
    CoordinatorHooks hooks;
    hooks.open_store = [this](auto, auto addresses) { return store_.open(std::move(addresses)); };
    hooks.operator_connection = std::bind_front(&Operations::adopt, &operations_);
    // MASTER_PORT is the endpoint's own port then, so clients of the store come to the coordinator.
    if (spec_.backend == RendezvousBackend::static_ranks) {
      hooks.foreign_connection = [this](auto fd, auto said) { store_.adopt(std::move(fd), said); };
    }
    return hooks;
  }

  LocalWorkersHooks workers_hooks() {
    return {[this] { return agent::reports(state_) ? follower_.client() : nullptr; },
            [this] { settle(); }, [this](const Error& why) { conclude(why); },
            [this](const TrainingProgress& told) { notifier_.progressed(told); }};
  }

  /// Tells the table what is left of the workers.
  void settle() {
    if (workers_.left_alone() && !asked_.is_of_job() && asked_.notice().empty()) {
      heed(NoticeResponse::save, "a signal to one of its workers");
    }
    if (workers_.any_running()) {
      return;
    }
    take(Event::workers_gone);
    // After it, and looked at anew: the attempt may have been retired just now.
    if (!workers_.any_to_show()) {
      take(Event::logs_shown);
    }
  }

  void on_signal(int number) {
    const bool hosts = follower_.coordinator() != nullptr;
    if (const auto event = asked_.hear(number, std::chrono::steady_clock::now(), hosts)) {
      log_->info("got {}", signal_name(number));
      take(*event, {.signal = number});
    }
  }

  OperationsHooks operations_hooks() {
    return {[this] {
              return take_snapshot({spec_, layout_.run_dir(), state_, asked_, workers_, follower_});
            },
            [this] { return workers_.output_tails(); },
            [this](int signal) { asked_.repeats(signal) ? void() : on_signal(signal); },
            [this](auto& node) { follower_.drain(node); },
            [this](auto rank, auto done) { workers_.take_stacks(rank, std::move(done)); }};
  }

  /// A handler that brings this event.
  auto taking(Event event) {
    return [this, event](boost::system::error_code error) {
      if (!error) {
        take(event);
      }
    };
  }

  /// Empty: --deadline, which is for the whole job. Two may come in one turn of the loop.
  void heed(NoticeResponse response, const std::string& notice) {
    if (!agent::serves(state_)) {
      return;
    }
    if (const auto event = asked_.noticed(notice, response)) {
      take(*event, {.signal = *event == Event::leave_asked ? SIGUSR2 : 0});
    }
  }

  /// A test may run an agent without one.
  void watch_guardian() {
    if (guardian_fd() >= 0) {
      // A pidfd becomes readable when its process has ended (pidfd_open(2)).
      guardian_.assign(guardian_fd());
      guardian_.async_wait(asio::posix::stream_descriptor::wait_read, taking(Event::guardian_died));
    }
  }

  void conclude(Result<JobSummary> outcome) { take(Event::concluded, {.outcome = &outcome}); }

  // ---- what is done about them --------------------------------------------------------------

  void take(Event event, const Cause& cause = {}) {
    const agent::Transition& transition = agent::on(state_, event);
    // Before the actions: the last of them may bring the next event from within.
    state_ = transition.next();
    if (!agent::serves(state_)) {
      notifier_.ends();
      notices_.end();
    }
    for (const Action action : transition.actions()) {
      carry_out(action, cause);
    }
  }

  void carry_out(Action action, const Cause& cause) {
    switch (action) {
      case Action::begin_attempt:
        return begin_attempt(*cause.world);
      case Action::obey_stop:
        return workers_.obey(*cause.order);
      case Action::remember_wish:
        asked_.stop(cause.signal);
        log_->info("to end the job: {}", asked_.reason());
        return;
      case Action::request_stop:
        return request_stop();
      case Action::request_now:
        return request_now();
      case Action::remember_leave:
        asked_.leave(cause.signal);
        return follower_.leaves();
      case Action::request_leave:
        if (CoordinatorClient* client = follower_.client(); client && asked_.leave_by()) {
          client->request_stop(*asked_.leave_by(), StopWish::leave);
        }
        return;
      case Action::limit_search:
        return limit_search();
      case Action::fence_workers:
        return workers_.fence();
      case Action::search:
        // Not from inside the order that led here.
        asio::post(io_, [this] { follower_.quiet(); });
        return;
      case Action::conclude:
        return end(std::move(*cause.outcome));
      case Action::conclude_as_asked:
        return end(asked_.summary(asked_.wish().verdict));
      case Action::conclude_at_once:
        return end(asked_.summary(asked_.verdict_at_once()));
      case Action::conclude_unguarded:
        return end(Error{"the process that watches the agent was killed", {}, {}});
      case Action::stop_workers:
        return workers_.stop(SIGTERM);
      case Action::kill_workers:
        return workers_.kill();
      case Action::retire_attempt:
        return workers_.retire();
      case Action::sweep:
        // What SIGKILL does not end here is the guardian's to report.
        (void)kill_descendants({}, kDescendantsBound);
        return;
      case Action::flush:
        return flush();
      case Action::leave_loop:
        io_.stop();
        return;
    }
  }

  void begin_attempt(const World& world) {
    CoordinatorClient* const coordinator = follower_.client();
    DDP_CHECK(coordinator != nullptr, "an order comes from a coordinator");
    board_.clear();
    log_->info("attempt {}: node {} of {}, ranks {} to {} of {}, store {}:{}",
               number(world.attempt), world.group_rank, world.group_world_size, world.base_rank,
               world.base_rank + spec_.local_world_size - 1, world.world_size, world.master_addr,
               world.master_port);
    const auto begun =
        workers_.begin(world, world.group_world_size > 1 ? follower_.own_address() : "");
    if (begun) {
      return notifier_.attempt_began(world);
    }
    coordinator->give_up(begun.error());
    if (follower_.coordinator() == nullptr) {
      // What failed lies with this node (a full disk): the others go on, wait or end (I-27).
      conclude(begun.error());
    }
  }

  void request_stop() {
    const agent::Wish wish = asked_.wish();
    CoordinatorClient* const coordinator = follower_.client();
    // The client of a coordinator that is lost stays until the workers are gone. A node that joins
    // may be counted already, and the others would wait for it.
    if (coordinator == nullptr || asked_.has_lost()) {
      const bool is_final = asked_.has_lost() && !outlives_its_coordinator(spec_);
      is_final || asked_.ends_at_once() ? take(Event::nobody_to_ask) : limit_search();
      return;
    }
    coordinator->request_stop(asked_.stop_by(), wish.wish, asked_.notice());
    // At once, without waiting for the coordinator's order: a person has asked.
    if (wish.stops_workers) {
      workers_.stop(asked_.stop_by());
    }
  }

  /// One that hosts the coordinator tells all others by this, before it is gone.
  void request_now() {
    const bool has_one = follower_.client() != nullptr && !asked_.has_lost();
    const bool asks = has_one && asked_.is_of_job();  // else the others go on without this node
    if (asks) {
      if (workers_.any_running()) {
        asked_.interrupts();
      }
      const bool ends = asked_.verdict_at_once() == Verdict::stopped;
      follower_.client()->request_stop(asked_.stop_by(), ends ? StopWish::end : StopWish::preempt,
                                       asked_.notice());
    }
    search_over_.expires_after(asks ? kAnswerBound : std::chrono::milliseconds(0));
    search_over_.async_wait([this](boost::system::error_code error) {
      if (!error && state_ == State::asked_now) {
        take(Event::nobody_to_ask);
      }
    });
  }

  /// Whether there is no coordinator to ask: the one before is lost, or none was found yet.
  [[nodiscard]] bool seeks_to_ask() const {
    const bool has_none = follower_.client() == nullptr || asked_.has_lost();
    return has_none && (state_ == State::asked || state_ == State::fencing_asked);
  }

  void limit_search() {
    const auto now = std::chrono::steady_clock::now();
    search_over_.expires_at(asked_.search_until(now, spec_.heartbeat_timeout));
    search_over_.async_wait([this](boost::system::error_code error) {
      if (!error && seeks_to_ask()) {
        give_up_asking();
      }
    });
  }

  void give_up_asking() {
    log_->warn(
        "no coordinator was found that could be asked: this agent ends, but the agents of "
        "the other nodes may not have been asked");
    take(Event::nobody_to_ask);
  }

  /// The job is over for this node.
  void end(Result<JobSummary> outcome) {
    DDP_CHECK(!outcome_.has_value(), "the first outcome stands");
    outcome_ = std::move(outcome);
    follower_.give_up();
    board_.clear();
    workers_.forget_warm();
  }

  void flush() {
    if (!*outcome_ || has_summary_text(**outcome_)) {
      err_.end_line();
    }
    // stdout, stderr, then the outcome that other nodes still have to receive from here.
    out_.on_flushed([this] {
      err_.on_flushed([this] {
        Coordinator* const own = outcome_->has_value() ? follower_.coordinator() : nullptr;
        const auto flushed = [this] { take(Event::flushed); };
        own != nullptr && !own->drained() ? own->on_drained(flushed) : flushed();
      });
    });
  }

  const JobSpec& spec_;
  LogLayout layout_;
  std::shared_ptr<EventLogFile> event_log_;  ///< null: none is asked for
  std::shared_ptr<spdlog::logger> log_;
  asio::io_context io_{1};
  Console out_;
  Console err_;
  StatusDisplay board_;
  SignalSource signals_;
  asio::posix::stream_descriptor guardian_;
  asio::steady_timer search_over_;  ///< Action::limit_search, request_now
  NoticeWatch notices_;
  ServiceNotifier notifier_;
  State state_ = State::serving;
  agent::Asked asked_;
  std::optional<Result<JobSummary>> outcome_;
  AttemptStore store_{io_, spec_, log_};
  LocalWorkers workers_;
  Follower follower_;
  Operations operations_;
};

/// The agent, once its node has a place for logs.
Result<JobSummary> run_with(const LogLayout& layout, const JobSpec& spec,
                            std::shared_ptr<spdlog::logger> log) {
  auto event_log = EventLogFile::open(spec.event_log, host_name());
  if (!event_log) {
    return event_log.error();
  }
  return Agent(spec, layout, std::move(*event_log), std::move(log)).run();
}

}  // namespace

Result<JobSummary> run_agent(const JobSpec& spec, std::shared_ptr<spdlog::logger> log) {
  // Before any child: a process whose parent dies goes to the nearest subreaper above it.
  if (auto subreaper = become_subreaper(); !subreaper) {
    return subreaper.error();
  }
  if (sets_omp_threads(own_environment(), spec)) {
    log->info("OMP_NUM_THREADS is not set: each worker gets 1, so that they share the processors");
  }
  // Before the node joins: without a place for logs it cannot run workers, and says so (unable.h).
  const auto layout = LogLayout::create(spec.logs, spec.job_id);
  if (!layout) {
    tell_unable(spec, layout.error(), log);
    return layout.error();
  }
  auto outcome = run_with(*layout, spec, std::move(log));
  layout->remove_unused();
  return outcome;
}

}  // namespace ddprun
