#include "launcher/option_table.h"

namespace ddprun {
namespace {

using G = OptionGroup;
using O = Options;

// The rows of a group, and the groups, are in the order of the help. A row without `ours` repeats
// an option of torchrun (torch/distributed/run.py): its spelling, type and default are in job
// scripts, and the conformance tests compare them. A help text names no default: default_text()
// adds that.
constexpr OptionRow kRows[] = {
    {.name = "nnodes",
     .field = &O::nnodes,
     .value_name = "N|MIN:MAX",
     .group = G::job,
     .help = "Number of nodes. With MIN:MAX the job starts with at least MIN nodes, grows up to "
             "MAX, and continues after a loss while MIN are left."},
    {.name = "nproc-per-node",
     .field = &O::nproc_per_node,
     .value_name = "N|cpu|gpu|auto",
     .group = G::job,
     .help = "Workers on this node: a number, one per usable CPU, one per visible GPU, or auto "
             "(GPUs if there are any, else CPUs)."},
    // 0 as in torchrun: a job ends at its first failure, unless its user allows restarts.
    {.name = "max-restarts",
     .field = &O::max_restarts,
     .value_name = "N",
     .group = G::job,
     .help = "How many times the job may restart its workers after a failure."},
    {.name = "restart-window",
     .field = &O::restart_window,
     .value_name = "N/TIME",
     .group = G::job,
     .ours = true,
     .help = "At most N of these restarts in any span of TIME, as in 3/1h."},
    {.name = "on",
     .field = &O::on,
     .value_name = "CLASS=ACTION,...",
     .group = G::job,
     .ours = true,
     .adds_up = true,
     .must_name = true,
     .help = "What a fault of a class does: restart (spends a restart), free (spends none) or fail "
             "(ends the job). Classes: oom, hang, start, exit, exit:CODE, signal, a signal's name, "
             "node-lost. May be given several times."},
    {.name = "no-progress-limit",
     .field = &O::no_progress_limit,
     .value_name = "N",
     .group = G::job,
     .ours = true,
     .help = "End the job after N attempts in a row without a newer snapshot or more steps, if "
             "workers report them (0: never)."},
    {.name = "scale-up",
     .field = &O::scale_up,
     .value_name = "WHEN",
     .group = G::job,
     .ours = true,
     .choices = "now|at-snapshot|never",
     .help = "When a node that joins a running job below MAX is admitted: now; at-snapshot, after "
             "all workers have saved (those that do not save on request are restarted); or never."},
    // It wins over the three options that it names, also where they come from variables.
    {.name = "standalone",
     .field = &O::standalone,
     .group = G::job,
     .help = "A job of this node only, on a free port; --rdzv-endpoint, --rdzv-backend and "
             "--rdzv-id are ignored."},
    {.name = "role",
     .field = &O::role,
     .value_name = "NAME",
     .group = G::job,
     .help = "Role of this node's workers."},

    {.name = "rdzv-endpoint",
     .field = &O::rdzv_endpoint,
     .value_name = "HOST[:PORT],...",
     .group = G::rendezvous,
     .help = "Where the nodes meet, the same on every node. The node that owns the address hosts "
             "it. Default port: 29400. At the other endpoints, agents of the job redirect new "
             "nodes to the coordinator."},
    // Optional: not given means c10d in some cases (rendezvous_config.cc), static in the others.
    {.name = "rdzv-backend",
     .field = &O::rdzv_backend,
     .value_name = "c10d|static|etcd|kubernetes",
     .group = G::rendezvous,
     .help = "c10d: nodes come and go. static: fixed ranks from --node-rank. etcd, kubernetes: by "
             "that service. Default: c10d with an endpoint or a single node, else static."},
    {.name = "rdzv-id",
     .field = &O::rdzv_id,
     .value_name = "ID",
     .group = G::rendezvous,
     .help = "Name of the job. It separates two jobs at one endpoint."},
    {.name = "rdzv-conf",
     .field = &O::rdzv_conf,
     .value_name = "KEY=VALUE,...",
     .group = G::rendezvous,
     .help =
         "Details of the rendezvous: join_timeout, last_call_timeout, timeout (static), is_host, "
         "keep_alive_interval, keep_alive_max_attempt; other keys are ignored."},
    // Optional: under c10d a given 0 claims a place among the nodes, and no rank claims none.
    {.name = "node-rank",
     .field = &O::node_rank,
     .value_name = "N",
     .group = G::rendezvous,
     .help = "Rank of this node. static: its place, 0 hosts the endpoint (default 0). c10d: its "
             "place among the nodes, after the one that hosts the endpoint. Default: the rank that "
             "mpirun or srun gave this agent."},
    {.name = "master-addr",
     .field = &O::master_addr,
     .value_name = "HOST",
     .group = G::rendezvous,
     .help = "static without --rdzv-endpoint: address of the node with rank 0."},
    // Optional: a given port asks for static, even for one node that could do without a port.
    {.name = "master-port",
     .field = &O::master_port,
     .value_name = "PORT",
     .group = G::rendezvous,
     .help = "static without --rdzv-endpoint: port on that node (default 29500)."},
    {.name = "local-addr",
     .field = &O::local_addr,
     .value_name = "ADDRESS",
     .group = G::rendezvous,
     .help = "Address at which other nodes reach this one, instead of the detected one."},
    // Both are optional: what is not given here, --rdzv-conf may still set.
    {.name = "join-timeout",
     .field = &O::join_timeout_seconds,
     .value_name = "SECONDS",
     .group = G::rendezvous,
     .ours = true,
     .help = "How long to wait for the other nodes (default 600; static 900)."},
    {.name = "heartbeat-timeout",
     .field = &O::heartbeat_timeout_seconds,
     .value_name = "SECONDS",
     .group = G::rendezvous,
     .ours = true,
     .help = "A node that sends nothing for this long is lost (default 3)."},
    {.name = "witness",
     .field = &O::witness,
     .group = G::rendezvous,
     .ours = true,
     .help = "Run no workers: vote when the job elects a coordinator, and become it where needed. "
             "The third vote for two nodes; takes no PROGRAM."},
    {.name = "job-token-file",
     .field = &O::job_token_file,
     .value_name = "FILE",
     .group = G::rendezvous,
     .ours = true,
     .help = "Only agents that have this secret may join, vote or lead (docs/job-token.md); "
             "DDPRUN_JOB_TOKEN holds it as well. Without it whoever reaches the endpoint may."},
    {.name = "require-same-env",
     .field = &O::require_same_env,
     .group = G::rendezvous,
     .ours = true,
     .help = "End the job before any worker starts (exit code 78) when nodes differ in program, "
             "versions, GPUs or variables such as NCCL_*; without it the differences are shown."},
    {.name = "same-env-ignore",
     .field = &O::same_env_ignore,
     .value_name = "NAME,...",
     .group = G::rendezvous,
     .ours = true,
     .must_name = true,
     .help = "What may differ between nodes: ddprun, program, python, torch, driver, cuda, nccl, "
             "gpu, or variables; NCCL_IB_* means all with that prefix."},
    {.name = "no-scheduler",
     .field = &O::no_scheduler,
     .group = G::rendezvous,
     .ours = true,
     .help = "Take no defaults from Slurm, PBS, LSF, mpirun or Kubernetes: inside an allocation "
             "they give --nnodes, --rdzv-endpoint, --rdzv-id, --nproc-per-node and the node's "
             "rank (docs/schedulers.md)."},

    {.name = "hosts",
     .field = &O::hosts,
     .value_name = "HOST[:N],...",
     .group = G::hosts,
     .ours = true,
     .must_name = true,
     .help =
         "Start one agent on each of these hosts by ssh, the first with rank 0, with N workers or "
         "as --nproc-per-node says; [user@]HOST, IPv6 in brackets (docs/hosts.md). What the other "
         "options need for that is set, unless it is given."},
    {.name = "hostfile",
     .field = &O::hostfile,
     .value_name = "FILE",
     .group = G::hosts,
     .ours = true,
     .must_name = true,
     .help = "The same for the hosts of a file: one a line, as HOST, HOST:N or HOST slots=N."},
    {.name = "ssh-command",
     .field = &O::ssh_command,
     .value_name = "COMMAND",
     .group = G::hosts,
     .ours = true,
     .must_name = true,
     .help = "What reaches a host, as in 'ssh -p 2222 -i key'. No shell reads it."},
    {.name = "pass-env",
     .field = &O::pass_env,
     .value_name = "NAME,...",
     .group = G::hosts,
     .ours = true,
     .adds_up = true,
     .must_name = true,
     .help = "Variables that go to all hosts beside PATH, LD_LIBRARY_PATH, PYTHON*, NCCL_*, OMP_*, "
             "HF_* and the others of docs/hosts.md; NAME* means all with that prefix."},
    {.name = "fan-out",
     .field = &O::fan_out,
     .value_name = "N",
     .group = G::hosts,
     .ours = true,
     .help = "How many hosts a process starts by itself; more are started by those."},

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
     .help = "Teed stdout lines that contain one of these texts also go to filtered_stdout.log of "
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

std::span<const OptionRow> option_rows() {
  return kRows;
}

}  // namespace ddprun
