#include "launcher/option_rows.h"

namespace ddprun {
namespace {

using G = OptionGroup;
using O = Options;

constexpr OptionRow kJobRows[] = {
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
    // All three or none, which job_certificates checks: one row for each, as etcd's and kubectl's
    // users know them, and not one option with three parts.
    {.name = "tls-ca",
     .field = &O::tls_ca,
     .value_name = "FILE",
     .group = G::rendezvous,
     .ours = true,
     .must_name = true,
     .help = "Agents speak TLS 1.3, and each shows a certificate that this authority has signed "
             "(docs/tls.md); PEM. With --tls-cert and --tls-key, on every node of the job; "
             "DDPRUN_TLS_CA, _CERT and _KEY name the files as well."},
    {.name = "tls-cert",
     .field = &O::tls_cert,
     .value_name = "FILE",
     .group = G::rendezvous,
     .ours = true,
     .must_name = true,
     .help = "This node's certificate, and those between it and the authority. It is read anew for "
             "each connection."},
    {.name = "tls-key",
     .field = &O::tls_key,
     .value_name = "FILE",
     .group = G::rendezvous,
     .ours = true,
     .must_name = true,
     .help = "The private key of that certificate, without a passphrase."},
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
     .help = "What may differ between nodes: ddprun, program, arguments, python, torch, driver, "
             "cuda, nccl, gpu, options such as --on, or variables; NCCL_IB_* means all with that "
             "prefix."},
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
};

}  // namespace

std::span<const OptionRow> job_option_rows() {
  return kJobRows;
}

}  // namespace ddprun
