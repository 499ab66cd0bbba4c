// Every environment variable that crosses a process border, named once. What torchrun defines has
// torchrun's meaning (torchrun contract, section 2); what starts with DDPRUN_ is ours.
#pragma once

namespace ddprun::env {

// The agent gives these to each worker.
inline constexpr char kLocalRank[] = "LOCAL_RANK";
inline constexpr char kRank[] = "RANK";
inline constexpr char kGroupRank[] = "GROUP_RANK";
inline constexpr char kRoleRank[] = "ROLE_RANK";
inline constexpr char kRoleName[] = "ROLE_NAME";
inline constexpr char kLocalWorldSize[] = "LOCAL_WORLD_SIZE";
inline constexpr char kWorldSize[] = "WORLD_SIZE";
inline constexpr char kGroupWorldSize[] = "GROUP_WORLD_SIZE";
inline constexpr char kRoleWorldSize[] = "ROLE_WORLD_SIZE";
inline constexpr char kMasterAddr[] = "MASTER_ADDR";
inline constexpr char kMasterPort[] = "MASTER_PORT";
inline constexpr char kRestartCount[] = "TORCHELASTIC_RESTART_COUNT";
inline constexpr char kMaxRestarts[] = "TORCHELASTIC_MAX_RESTARTS";
inline constexpr char kRunId[] = "TORCHELASTIC_RUN_ID";
inline constexpr char kUseAgentStore[] = "TORCHELASTIC_USE_AGENT_STORE";
inline constexpr char kNcclAsyncErrorHandling[] = "TORCH_NCCL_ASYNC_ERROR_HANDLING";
inline constexpr char kErrorFile[] = "TORCHELASTIC_ERROR_FILE";
inline constexpr char kSignalsToHandle[] = "TORCHELASTIC_SIGNALS_TO_HANDLE";
inline constexpr char kTimerFile[] = "TORCHELASTIC_TIMER_FILE";
inline constexpr char kOmpNumThreads[] = "OMP_NUM_THREADS";
inline constexpr char kCudaVisibleDevices[] = "CUDA_VISIBLE_DEVICES";

/// The interface that PyTorch's Gloo listens on. Without it Gloo resolves the node's own host name,
/// and falls back to loopback, where no other node can reach it, when that fails.
inline constexpr char kGlooSocketInterface[] = "GLOO_SOCKET_IFNAME";
/// The same for NCCL: a prefix of names, or "=" and a whole name. By itself NCCL takes loopback
/// only where there is nothing else, so a job of one node needs none.
inline constexpr char kNcclSocketInterface[] = "NCCL_SOCKET_IFNAME";

/// Python's own: with it a fatal signal shows the stacks of all threads.
inline constexpr char kPythonFaultHandler[] = "PYTHONFAULTHANDLER";

/// Path of the worker's progress channel (contract/progress_channel.h).
inline constexpr char kProgressChannel[] = "DDPRUN_PROGRESS_CHANNEL";

// The agent reads these from its own environment.
inline constexpr char kPythonExec[] = "PYTHON_EXEC";
inline constexpr char kLogLevel[] = "LOGLEVEL";
inline constexpr char kLogLinePrefixTemplate[] = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE";
inline constexpr char kEnableFileTimer[] = "TORCHELASTIC_ENABLE_FILE_TIMER";
inline constexpr char kHealthCheckPort[] = "TORCHELASTIC_HEALTH_CHECK_PORT";
inline constexpr char kShutdownTimeout[] = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
inline constexpr char kDisableSharedStore[] = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE";

// Where the clouds' metadata services are, if not at their usual addresses (--preempt-notice). The
// first two are read by the clouds' own programs, too.
inline constexpr char kAwsMetadataEndpoint[] = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
inline constexpr char kGceMetadataHost[] = "GCE_METADATA_HOST";
inline constexpr char kAzureMetadataHost[] = "DDPRUN_AZURE_METADATA_HOST";

// systemd's (sd_notify(3), sd_watchdog_enabled(3)): for the agent, and not for its children.
inline constexpr char kNotifySocket[] = "NOTIFY_SOCKET";
inline constexpr char kWatchdogUsec[] = "WATCHDOG_USEC";
inline constexpr char kWatchdogPid[] = "WATCHDOG_PID";

}  // namespace ddprun::env
