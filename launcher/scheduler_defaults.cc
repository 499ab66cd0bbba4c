#include "launcher/scheduler_defaults.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/list_options.h"
#include "launcher/python_numbers.h"
#include "launcher/scheduler/allocation.h"
#include "launcher/scheduler/scheduler.h"
#include "launcher/scheduler/scheduler_rank.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/text.h"
#include "rendezvous/contract/environment.h"

namespace ddprun {
namespace {

/// The loopback addresses, as a user writes them, and those that are no place to go to. Names, and
/// other ways to write a number, need the machine (Host).
bool is_loopback_text(std::string_view host) {
  return host.empty() || host == "localhost" || host == "::1" || host.starts_with("127.") ||
         host == "0.0.0.0" || host == "::";
}

/// "n1" of "n1.site": what a node calls itself may have a domain or not.
std::string_view short_name(std::string_view host) {
  return host.substr(0, host.find('.'));
}

bool takes_nothing(const Options& given) {
  return given.no_scheduler || given.standalone || given.witness;
}

/// One option after the other; each step looks at what those before it have set.
class Defaults {
 public:
  Defaults(const Options& given, const Environment& environment, const Host& host,
           const Allocation& found)
      : options_(given), host_(host), found_(found), rank_(scheduler_rank(environment)) {}

  Result<ScheduledOptions> run() {
    for (const auto step :
         {&Defaults::nodes, &Defaults::endpoint, &Defaults::workers, &Defaults::refuse_loopback}) {
      if (const auto done = (this->*step)(); !done) {
        return done.error();
      }
    }
    ScheduledOptions result{options_, std::move(notices_)};
    if (static_cast<int>(found_.host_names.value.size()) == nodes_max() && nodes_max() > 1) {
      result.expected = {found_.host_names.value, found_.host_names.variable};
    }
    if (!taken_.empty()) {
      // One node shows it at the default level. A thousand nodes would show it a thousand times.
      const bool is_first = !rank_ || rank_->rank == 0;
      result.notices.insert(
          result.notices.begin(),
          Notice{is_first ? LogLevel::warning : LogLevel::info,
                 found_.launcher + ": " + taken_ + "; --no-scheduler turns this off"});
    }
    return result;
  }

 private:
  [[nodiscard]] bool is_given(std::string_view name) const {
    return std::find(options_.given.begin(), options_.given.end(), name) != options_.given.end();
  }

  /// For the notice, and so that a message about the value names the variable.
  void take(const char* name, const std::string& value, const std::string& variable) {
    DDP_CHECK(!is_given(name), "what was given stays");
    options_.from_scheduler.emplace_back(name, variable);
    taken_ +=
        (taken_.empty() ? "--" : ", --") + std::string(name) + " " + value + " (" + variable + ")";
  }

  /// Of --nnodes N or MIN:MAX; 0 for what is neither, which is reported later.
  [[nodiscard]] int nodes_max() const {
    const std::string_view text = options_.nnodes;
    return read_int(text.substr(text.find(':') + 1)).value_or(0);
  }

  Result<void> nodes() {
    if (is_given("nnodes")) {
      return {};
    }
    if (!found_.agents) {
      return found_.agents.error();
    }
    if (!found_.advice.empty()) {
      notices_.push_back({LogLevel::warning, found_.advice});
    }
    if (found_.agents->value > 1) {
      options_.nnodes = std::to_string(found_.agents->value);
      take("nnodes", options_.nnodes, found_.agents->variable);
    }
    return {};
  }

  /// Where to meet, and under which name. A node alone needs neither. Who names the place has the
  /// nodes meet there by another way than this step of the scheduler, so the name is theirs, too: a
  /// loop of srun, one for each node, is as many steps.
  Result<void> endpoint() {
    if (is_by_kubernetes()) {
      take_job_id();
      return {};
    }
    if (nodes_max() <= 1) {
      return {};
    }
    const bool has_place =
        is_given("rdzv-endpoint") || is_given("master-addr") || is_given("master-port");
    const bool tells_place = found_.port != 0;
    if (has_place || !tells_place) {
      return {};
    }
    if (!found_.meeting_host) {
      return found_.meeting_host.error();
    }
    options_.rdzv_endpoint =
        to_text({found_.meeting_host->value, static_cast<std::uint16_t>(found_.port)});
    take("rdzv-endpoint", options_.rdzv_endpoint, found_.meeting_host->variable);
    is_first_host_ = rank_ && rank_->rank == 0;
    take_job_id();
    return {};
  }

  /// The nodes meet where every pod finds its API server, so this job alone needs a name.
  [[nodiscard]] bool is_by_kubernetes() const { return options_.rdzv_backend == "kubernetes"; }

  void take_job_id() {
    if (!is_given("rdzv-id") && !found_.job_id.value.empty()) {
      options_.rdzv_id = found_.job_id.value;
      take("rdzv-id", options_.rdzv_id, found_.job_id.variable);
    }
  }

  /// A worker for each GPU, or one, as without a scheduler. Agents that share a host share its GPUs
  /// only where the scheduler has shared them out.
  Result<void> workers() {
    // A shell on a login node may see GPUs that are not the job's.
    if (is_given("nproc-per-node") || !found_.computes_here) {
      return {};
    }
    int gpus = host_.count_gpus().count;
    std::string how = "visible GPUs";
    const int told = found_.gpus ? found_.gpus->value : 0;
    // The scheduler's number counts where ddprun cannot count (another kind of GPUs), and where
    // more are visible than were given to the job.
    if (found_.agents_here == 1 && told > 0 && (gpus == 0 || told < gpus)) {
      gpus = told;
      how = found_.gpus->variable;
    }
    DDP_CHECK(gpus >= 0 && found_.agents_here >= 1, "counts are not negative");
    const bool are_shared_out = gpus * found_.agents_here <= told;
    if (gpus > 0 && found_.agents_here > 1 && !are_shared_out) {
      return Error{std::to_string(found_.agents_here) +
                       " agents on this host would each use all of its " + std::to_string(gpus) +
                       " GPUs",
                   found_.launcher,
                   "start one on each host (srun --ntasks-per-node=1, mpirun --map-by "
                   "ppr:1:node), or give --nproc-per-node"};
    }
    // For one GPU, or none, the default of one worker is right.
    if (gpus > 1) {
      options_.nproc_per_node = std::to_string(gpus);
      take("nproc-per-node", options_.nproc_per_node, how);
    }
    return {};
  }

  /// Each node would find the address to be its own, host the job, and wait for the others or even
  /// train by itself.
  Result<void> refuse_loopback() {
    if (nodes_max() <= 1 || found_.hosts <= 1 || is_by_kubernetes()) {
      return {};
    }
    const bool by_master = options_.rdzv_endpoint.empty() && options_.rdzv_backend != "c10d";
    const char* const option = by_master ? "master-addr" : "rdzv-endpoint";
    // One loopback address among several is as wrong: a node would begin at its own.
    std::vector<std::string> texts = split_commas(options_.rdzv_endpoint);
    if (texts.empty()) {
      texts.emplace_back(by_master ? options_.master_addr : "localhost");
    }
    for (const std::string& text : texts) {
      const auto endpoint = parse_endpoint(text, 0);
      if (endpoint && is_loopback(endpoint->host)) {
        return Error{
            in_quotes(text) + " is this node's own loopback address, but the " + found_.launcher +
                " has several nodes: every node would be a world of "
                "its own",
            origin(options_, option), "name the first node by an address that the others reach"};
      }
    }
    return {};
  }

  /// Debian gives a host's own name a loopback address, on that host only: the node that has the
  /// name may host there, since it listens at all of its addresses.
  [[nodiscard]] bool is_loopback(const std::string& host) const {
    if (is_loopback_text(host)) {
      return true;
    }
    const bool is_own_name =
        is_first_host_ || short_name(host) == short_name(host_.full_host_name());
    return !is_own_name && host_.is_loopback_name(host);
  }

  Options options_;
  const Host& host_;
  const Allocation& found_;
  std::optional<SchedulerRank> rank_;
  bool is_first_host_ = false;  ///< the endpoint is what the scheduler calls this host
  std::string taken_;
  std::vector<Notice> notices_;
};

}  // namespace

std::optional<Error> odd_scheduler_number(const Options& given, const Environment& environment) {
  // Of a worker that runs ddprun nothing is taken either.
  return takes_nothing(given) || told_text(environment, env::kRunId) ? std::nullopt
                                                                     : odd_number(environment);
}

Result<ScheduledOptions> with_scheduler_defaults(const Options& given,
                                                 const Environment& environment, const Host& host) {
  if (takes_nothing(given)) {
    return ScheduledOptions{given, {}, {}};
  }
  const auto found = find_allocation(environment, host.read_file, host.full_host_name);
  return found ? Defaults(given, environment, host, *found).run()
               : Result<ScheduledOptions>(ScheduledOptions{given, {}, {}});
}

}  // namespace ddprun
