#include "launcher/option_rows.h"

namespace ddprun {
namespace {

using G = OptionGroup;
using O = Options;

// What each node may have another value of: nothing here is compared between nodes, or travels to
// one that joins.
constexpr OptionRow kNodeRows[] = {
    {.name = "module",
     .letter = 'm',
     .field = &O::module,
     .group = G::program,
     .help = "PROGRAM is the name of a Python module, run as by python -m."},
    {.name = "no-python",
     .field = &O::no_python,
     .group = G::program,
     .help = "Execute PROGRAM itself, also when its name ends in .py."},
    {.name = "run-path",
     .field = &O::run_path,
     .group = G::program,
     .help = "Run PROGRAM under Python whatever its name; wins over --no-python and --module."},
    {.name = "virtual-local-rank",
     .field = &O::virtual_local_rank,
     .group = G::program,
     .help = "Give each worker LOCAL_RANK=0 and one visible GPU of its own."},
    {.name = "legacy-launch",
     .field = &O::legacy_launch,
     .group = G::program,
     .ours = true,
     .help = "Put --local-rank=N in front of PROGRAM's own arguments, as python -m "
             "torch.distributed.launch does."},
    // python -m torch.distributed.launch has this flag, and reads no variable for it.
    {.name = "use-env",
     .field = &O::use_env,
     .group = G::program,
     .has_variable = false,
     .ours = true,
     .help = "With --legacy-launch: leave --local-rank out. LOCAL_RANK is always set."},
    {.name = "warm-workers",
     .field = &O::warm_workers,
     .group = G::program,
     .ours = true,
     .help = "Keep one spare Python process per worker that has imported PyTorch, so that a "
             "restart needs no import. It costs the memory of one more import per worker."},
    {.name = "warm-imports",
     .field = &O::warm_imports,
     .value_name = "NAME,...",
     .group = G::program,
     .ours = true,
     .must_name = true,
     .help = "Packages that a warm worker imports beside torch and numpy."},

    {.name = "log-dir",
     .field = &O::log_dir,
     .value_name = "DIR",
     .group = G::output,
     .help =
         "Where the workers' files go, in a directory per job and attempt; /dev/null: no files. "
         "Default: a new directory under the temporary directory."},
    {.name = "redirects",
     .letter = 'r',
     .field = &O::redirects,
     .value_name = "MAP",
     .group = G::output,
     .help = "Streams that go to a file and not to the console: 0 none, 1 stdout, 2 stderr, 3 "
             "both, for all workers, or by local rank: 0:3,1:2."},
    {.name = "tee",
     .letter = 't',
     .field = &O::tee,
     .value_name = "MAP",
     .group = G::output,
     .help = "Streams that go to a file and, with the worker's name before each line, to the "
             "console; MAP as above."},
    {.name = "local-ranks-filter",
     .field = &O::local_ranks_filter,
     .value_name = "RANK,...",
     .group = G::output,
     .help = "Show only these local ranks on the console; files are written for all."},
    {.name = "duplicate-stdout-filters",
     .field = &O::duplicate_stdout_filters,
     .value_name = "TEXT,...",
     .group = G::output,
     .help = "Teed stdout lines on the console that contain one of these texts also go to "
             "filtered_stdout.log of "
             "the attempt; ,, is a comma in a text."},
    {.name = "duplicate-stderr-filters",
     .field = &O::duplicate_stderr_filters,
     .value_name = "TEXT,...",
     .group = G::output,
     .help = "The same for stderr and filtered_stderr.log."},
    {.name = "no-fold",
     .field = &O::no_fold,
     .group = G::output,
     .ours = true,
     .help = "Show a line that several workers write at about the same time once per worker, and "
             "not once with their ranks ([0-7]), on a terminal too. Wins over --fold."},
    {.name = "fold",
     .field = &O::fold,
     .group = G::output,
     .ours = true,
     .help = "Show such a line once even if stdout or stderr is no terminal; never with "
             "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE."},

    // torchrun takes this for a prefix of --event-log-handler. An exact name wins over a prefix, so
    // a script that relies on that gets a file here (docs/command-line.md).
    {.name = "event-log",
     .field = &O::event_log,
     .value_name = "FILE",
     .group = G::output,
     .ours = true,
     .must_name = true,
     .help = "Append the events of the job to this file, as JSON lines (docs/events.md). The node "
             "of the coordinator writes it."},
    // Not open unless asked for: whoever reaches the port can read what the job is.
    {.name = "metrics-port",
     .field = &O::metrics_port,
     .value_name = "PORT",
     .group = G::output,
     .ours = true,
     .help = "Serve /metrics for Prometheus, /healthz for probes, /status.json and a page that "
             "shows it at this TCP port of this node (docs/operations.md); 0: any free port, which "
             "is told."},
    {.name = "metrics-address",
     .field = &O::metrics_address,
     .value_name = "ADDRESS",
     .group = G::output,
     .ours = true,
     .must_name = true,
     .help = "The numeric address of that port, which decides who reaches it; 0.0.0.0: everybody."},

    {.name = "signals-to-handle",
     .field = &O::signals_to_handle,
     .value_name = "NAME,...",
     .group = G::ending,
     .help = "Signals that make ddprun stop the workers and end the job on every node."},
    // Optional: TORCH_ELASTIC_SHUTDOWN_TIMEOUT counts where the option is not given.
    {.name = "shutdown-timeout",
     .field = &O::shutdown_timeout_seconds,
     .value_name = "SECONDS",
     .group = G::ending,
     .help =
         "From a worker's stop signal to its SIGKILL (default: TORCH_ELASTIC_SHUTDOWN_TIMEOUT, or "
         "30)."},
    {.name = "preempt-grace",
     .field = &O::preempt_grace,
     .value_name = "TIME",
     .group = G::ending,
     .ours = true,
     .help = "How long workers may take to save when the job is preempted: by SIGTERM or SIGUSR1 "
             "to any agent, or by --deadline."},
    {.name = "deadline",
     .field = &O::deadline,
     .value_name = "TIME|@UNIX",
     .group = G::ending,
     .ours = true,
     .help = "Preempt the job this long after this start, as in 230m, or at this Unix time: all "
             "workers save, and ddprun exits with 75."},
    {.name = "preempt-notice",
     .field = &O::preempt_notice,
     .value_name = "SOURCE,...",
     .group = G::ending,
     .ours = true,
     .adds_up = true,
     .must_name = true,
     .help = "Watch for the announcement that this machine goes, and preempt the job then. SOURCE: "
             "aws, gcp or azure (the cloud's metadata service), or file:PATH (a file that somebody "
             "makes)."},
    {.name = "on-notice",
     .field = &O::on_notice,
     .value_name = "WHAT",
     .group = G::ending,
     .ours = true,
     .choices = "save|leave",
     .help = "What an announcement leads to: the whole job saves and exits with 75, or this node "
             "leaves in order, as by SIGUSR2, and the others go on."},
    // Off unless asked for: a job may evaluate or compile for hours, and only its user knows.
    {.name = "hang-timeout",
     .field = &O::hang_timeout,
     .value_name = "TIME[,START]",
     .group = G::ending,
     .ours = true,
     .help = "Workers that make no progress for TIME (as in 90s or 10m) hang: ddprun collects "
             "their stacks, names them, and restarts the job. Until its first step a worker has "
             "START: 10 times TIME, at least 5 minutes. Default: off."},

    {.name = "help",
     .letter = 'h',
     .field = &O::help,
     .group = G::other,
     .has_variable = false,
     .help = "Show this text."},
    {.name = "version",
     .field = &O::version,
     .group = G::other,
     .has_variable = false,
     .ours = true,
     .help = "Show the version."},
    // torchrun has it for bash, zsh and tcsh, and needs a Python package for that.
    {.name = "print-completion",
     .field = &O::print_completion,
     .value_name = "SHELL",
     .group = G::other,
     .has_variable = false,
     .ours = true,
     .choices = "bash|zsh|fish",
     .help = "Show the script that makes this shell complete ddprun's command line."},

    // A script for torchrun must start unchanged, so these are read and checked. resolve() refuses
    // the values that would change what the job does.
    {.name = "monitor-interval",
     .field = &O::monitor_interval_seconds,
     .value_name = "SECONDS",
     .group = G::accepted,
     .help = "No effect: ddprun waits for events and does not poll."},
    {.name = "start-method",
     .field = &O::start_method,
     .value_name = "METHOD",
     .group = G::accepted,
     .choices = "spawn|fork|forkserver",
     .help = "No effect: workers are programs, not Python functions."},
    {.name = "event-log-handler",
     .field = &O::event_log_handler,
     .value_name = "NAME",
     .group = G::accepted,
     .help = "No effect: event handlers are Python plug-ins."},
    {.name = "logs-specs",
     .field = &O::logs_specs,
     .value_name = "NAME",
     .group = G::accepted,
     .has_variable = false,
     .help = "Only 'default': others are Python plug-ins."},
    {.name = "numa-binding",
     .field = &O::numa_binding,
     .value_name = "MODE",
     .group = G::accepted,
     .has_variable = false,
     .choices = "node|socket|exclusive|core-complex",
     .help = "Refused: ddprun cannot bind workers to CPUs yet."},
};

}  // namespace

std::span<const OptionRow> node_option_rows() {
  return kNodeRows;
}

}  // namespace ddprun
