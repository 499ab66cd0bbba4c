#include "agent/warm/warm_pool.h"

#include <fmt/core.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "agent/process/worker_environment.h"
#include "agent/warm/warm_environment.h"
#include "agent/warm/warm_worker.h"

namespace ddprun {

namespace asio = boost::asio;

namespace {

/// The workers' own start comes first: it is the same work, and a PyTorch worker is through with it
/// by then. An attempt that ends sooner is followed by a plain start, or by what is ready already.
constexpr std::chrono::seconds kAfterStart{5};
/// Imports from a cold network file system take long; one that hangs is not kept for ever.
constexpr std::chrono::minutes kImportBound{5};
/// How a trial begins: an interpreter that runs our code for it does so for a program too.
constexpr const char* kTrialArguments[] = {"-u", "-c", "pass"};

}  // namespace

struct WarmPool::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& loop, const JobSpec& job, std::shared_ptr<spdlog::logger> logger)
      : io(loop),
        spec(job),
        log(std::move(logger)),
        timer(loop),
        workers(static_cast<std::size_t>(job.local_world_size)),
        failed(workers.size()) {}

  /// What keeps one rank from being prepared keeps all: the pool closes for the rest of the job.
  void give_up(const std::string& why) {
    if (!std::exchange(closed, true)) {
      log->info("no warm workers: {}; each restart starts in the plain way", why);
    }
    timer.cancel();
    trial.reset();
    workers.clear();
  }

  /// One timer serves the pause before a spare and the bound of its import: the two never overlap.
  void after(asio::steady_timer::duration time, void (Impl::*then)()) {
    timer.expires_after(time);
    timer.async_wait([self = shared_from_this(), then](boost::system::error_code error) {
      if (!error && !self->closed) {
        (self.get()->*then)();
      }
    });
  }

  /// Begins with the first rank that has none; the others follow when that one is done.
  void prepare() {
    if (closed || !world) {
      return;
    }
    // No spare before the trial: an interpreter that ignores PYTHONPATH would train a second time.
    if (!hooked) {
      start_trial();
      return;
    }
    for (std::size_t i = 0; i < workers.size(); ++i) {
      // One import at a time: it competes with the training on this node.
      if (workers[i] && workers[i]->state() == WarmWorker::State::importing) {
        return;
      }
    }
    for (std::size_t i = 0; i < workers.size(); ++i) {
      if (!workers[i] && !failed[i]) {
        start_one(i);
        return;
      }
    }
  }

  /// Made for the attempt that runs; warm_environment leaves out what the next one may have
  /// otherwise.
  Result<SpawnRequest> request_for(int local_rank) const {
    auto environment = worker_environment(own_environment(), spec, {*world, local_rank, "", ""});
    if (!environment) {
      return environment.error();
    }
    SpawnRequest request;
    request.path = spec.program.path;
    request.argv = worker_argv(spec.program, local_rank);
    request.descriptor_limit = spec.descriptor_limit;
    request.environment = warm_environment(*environment, spec.warm_imports);
    return request;
  }

  /// Once per job. An interpreter that does not come by our code (a wrapper that empties
  /// PYTHONPATH) would run the program at once.
  void start_trial() {
    if (trial) {
      return;
    }
    auto request = request_for(0);
    if (!request) {
      give_up(request.error().sentence());
      return;
    }
    request->argv.assign({spec.program.path});
    request->argv.insert(request->argv.end(), std::begin(kTrialArguments),
                         std::end(kTrialArguments));
    auto started = WarmWorker::start(io, std::move(*request),
                                     [this](WarmWorker::State state, const std::string& why) {
                                       if (state == WarmWorker::State::hooked) {
                                         // The trial ends by itself, and only then the first spare
                                         // begins.
                                         hooked = true;
                                       } else if (hooked && state == WarmWorker::State::ended) {
                                         timer.cancel();
                                         trial.reset();
                                         prepare();
                                       } else {
                                         give_up("in a trial, " + spec.program.path +
                                                 " did not look at PYTHONPATH (" + why + ")");
                                       }
                                     });
    if (!started) {
      give_up(started.error().sentence());
      return;
    }
    trial = std::move(*started);
    after(kImportBound, &Impl::import_took_too_long);
  }

  void start_one(std::size_t i) {
    auto request = request_for(static_cast<int>(i));
    if (!request) {
      give_up(request.error().sentence());
      return;
    }
    // For the line that says how long a spare took: people choose --warm-imports by it.
    begun = std::chrono::steady_clock::now();
    auto started = WarmWorker::start(
        io, std::move(*request),
        [this, i](WarmWorker::State state, const std::string& why) { changed(i, state, why); });
    if (!started) {
      give_up(started.error().sentence());
      return;
    }
    workers[i] = std::move(*started);
    after(kImportBound, &Impl::import_took_too_long);
  }

  void changed(std::size_t i, WarmWorker::State state, const std::string& why) {
    if (state == WarmWorker::State::unfit) {
      give_up(why);  // it is a matter of the program, so of every rank
      return;
    }
    if (state == WarmWorker::State::ready) {
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
      log->info("local rank {}: a warm worker is ready (process {}, after {:.1f} s)", i,
                workers[i]->pid(), took.count());
    } else {
      log->info(
          "local rank {}: the warm worker is lost: {}; the next start of this rank is a plain one",
          i, why);
      workers[i].reset();
      failed[i] = true;  // until the next attempt
    }
    timer.cancel();
    prepare();
  }

  void import_took_too_long() {
    give_up(
        fmt::format("importing took more than {} s", std::chrono::seconds(kImportBound).count()));
  }

  asio::io_context& io;
  const JobSpec& spec;
  std::shared_ptr<spdlog::logger> log;
  asio::steady_timer timer;  // until the next begins, or for as long as one imports
  std::optional<World> world;
  std::unique_ptr<WarmWorker> trial;
  bool hooked = false;
  std::vector<std::unique_ptr<WarmWorker>> workers;  // by local rank
  std::vector<bool> failed;
  std::chrono::steady_clock::time_point begun;
  bool closed = false;
};

WarmPool::WarmPool(asio::io_context& io, const JobSpec& spec, std::shared_ptr<spdlog::logger> log)
    : impl_(std::make_shared<Impl>(io, spec, std::move(log))) {}

WarmPool::~WarmPool() {
  close();
}

void WarmPool::attempt_started(const World& world) {
  if (impl_->closed) {
    return;
  }
  impl_->world = world;
  // A loss may have been an accident, such as an OOM kill: each attempt tries each rank once.
  std::fill(impl_->failed.begin(), impl_->failed.end(), false);
  const auto importing = [](const auto& worker) {
    return worker && worker->state() == WarmWorker::State::importing;
  };
  if (importing(impl_->trial) ||
      std::any_of(impl_->workers.begin(), impl_->workers.end(), importing)) {
    return;  // the rest follows it
  }
  // Each attempt restarts the pause: its own workers import first.
  impl_->after(kAfterStart, &Impl::prepare);
}

std::unique_ptr<WorkerProcess> WarmPool::take(int local_rank, const SpawnRequest& worker,
                                              std::function<void(ExitStatus)> on_exit) {
  if (impl_->closed) {
    return nullptr;
  }
  auto& warm = impl_->workers[static_cast<std::size_t>(local_rank)];
  if (!warm || warm->state() != WarmWorker::State::ready) {
    return nullptr;
  }
  // become() uses the spare up, whatever comes of it.
  const pid_t pid = warm->pid();
  auto process = warm->become(worker, std::move(on_exit));
  warm.reset();
  if (!process) {
    impl_->log->info(
        "local rank {}: the warm worker (process {}) is not used: {}; this rank starts in the "
        "plain way",
        local_rank, pid, process.error().sentence());
    // Whatever it was, it holds for the others too; and nobody waits once more for no answer.
    for (auto& other : impl_->workers) {
      other.reset();
    }
    return nullptr;
  }
  impl_->log->info("local rank {}: the warm worker (process {}) goes on", local_rank, pid);
  return std::move(*process);
}

void WarmPool::close() {
  impl_->closed = true;
  impl_->timer.cancel();
  impl_->trial.reset();
  impl_->workers.clear();
}

/// kill_descendants spares these: they are the agent's children, but no leftovers of an attempt.
std::vector<pid_t> WarmPool::pids() const {
  std::vector<pid_t> found;
  if (impl_->trial) {
    found.push_back(impl_->trial->pid());
  }
  for (const auto& worker : impl_->workers) {
    if (worker) {
      found.push_back(worker->pid());
    }
  }
  return found;
}

}  // namespace ddprun
