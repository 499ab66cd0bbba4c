"""The table: command lines and what becomes of them, under torchrun and under ddprun alike.

A scenario is a dict:
  words       the launcher's words before the program
  program     the program's words; default: worker.sh through --no-python sh, with the words of `does`
  env         variables on top of a clean environment (None removes one)
  nodes       several nodes: a list of the words that only each of them gets
  node_env    {node: variables that only this one gets}
  ddprun      words that only ddprun gets
  signal      sent to every launcher once both workers hold
  refused     True: both must refuse it before any worker runs
  differs     {aspect: id in differences.md} where ddprun is another on purpose
  only        True: nothing but those aspects is compared
  slow        True: is begun first
Aspects that are compared: exit, takes (long or not; where `differs` names it), argv, env NAME, state, out,
err (of workers, by rank), OMP banner (whether each agent tells of OMP_NUM_THREADS), tree (names of log
files), logs (their content), errors (workers' error files), error_file N and summary N (of the agent of
node N).
"""

def scenario(words="", does="", **more):
    return {"words": words.split(), "does": does.split(), **more}


def both_spellings(option, value=None):
    """--a-b V, --a_b V, --a-b=V."""
    under = "--" + option[2:].replace("-", "_")
    if value is None:
        return [option] + ([under] if under != option else [])
    return [f"{option} {value}", f"{option}={value}"] + (
        [f"{under} {value}"] if under != option else [])


C10D = "--nnodes 2 --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:PORT --rdzv-id two"
TWO_NODES = {"c10d": (C10D, ["--rdzv-conf is_host=1", "--rdzv-conf is_host=0"]),
             "static": ("--nnodes 2 --master-addr 127.0.0.1 --master-port PORT",
                        ["--node-rank 0", "--node-rank 1"])}


def two_nodes(add):
    """Nodes that fail together. Those whose peer fails do so too, as those in a collective would."""
    for backend, (words, nodes) in TWO_NODES.items():
        def both(name, options, does, error_files=None, **differs):
            files = {f"error_file {node}": error_files for node in (0, 1)} if error_files else {}
            add(f"two nodes, {backend}: {name}", f"{words} {options} --log-dir LOGS -r 3", does,
                nodes=nodes, env={"TORCHELASTIC_ERROR_FILE": "ERROR"}, differs={**files, **differs},
                **({"signal": name.split()[0]} if does == "hold" else {}))
        for node in (0, 1):
            other = {f"summary {1 - node}": "ONE-CAUSE"}
            both(f"a worker of node {node} fails", "", f"fails {node} 0 4 loses 0",
                 "AGENT-ERROR-FILE", **other)
            both(f"a worker of node {node} is killed", "", f"fails {node} 0 KILL loses 0",
                 "AGENT-ERROR-FILE", **other)
            both(f"a restart after a failure on node {node}", "--max-restarts 1",
                 f"fails {node} 0 5 loses 0 say done")
        both("restarts that are spent", "--max-restarts 1", "fails 0 0 5 loses 0 fails 1 1 7 loses 1",
             "AGENT-ERROR-FILE", **{"summary 0": "ONE-CAUSE"})
        for name in ("SIGTERM", "SIGINT"):
            both(f"{name} to both agents", "", "hold", "AGENT-ERROR-FILE")


def on_purpose(add):
    """Each shows an entry of differences.md that nothing above shows."""
    words, nodes = TWO_NODES["c10d"]
    add("a failure on each node in turn", f"{words} --max-restarts 1",
        "fails 0 0 5 stays 0 fails 1 1 5 stays 1", nodes=nodes, only=True,
        differs={"exit": "ONE-BUDGET", "env TORCHELASTIC_RESTART_COUNT": "ONE-BUDGET"})
    add("a worker that saves on SIGTERM", "--standalone --nproc-per-node 2", "save",
        signal="SIGTERM", differs={"exit": "PREEMPTED"})
    add("SIGUSR1 to the agent", "--standalone --nproc-per-node 2", "save", signal="SIGUSR1",
        differs={"exit": "SIGUSR1"})
    add("nodes that differ", C10D, nodes=nodes, node_env={1: {"NCCL_DEBUG": "INFO"}})
    add("nodes that differ and must not", C10D, nodes=["", ""], node_env={1: {"NCCL_DEBUG": "INFO"}},
        ddprun="--require-same-env", only=True, differs={"exit": "SAME-ENV"})
    add("an endpoint without a backend", "--nnodes 1 --rdzv-endpoint 127.0.0.1:PORT",
        differs={"env MASTER_PORT": "ENDPOINT-MEANS-C10D"})
    add("node ranks under c10d", C10D.replace("2", "3", 1), only=True,
        nodes=["--rdzv-conf is_host=1 --role host", "--rdzv-conf is_host=0 --node-rank 2 --role two",
               "--rdzv-conf is_host=0 --node-rank 1 --role one"],
        differs={"env ROLE_NAME": "STABLE-RANKS"})
    add("a key of the attempt before", "--standalone --max-restarts 1", program=["STORE_KEY"],
        differs={"out": "FRESH-STORE"})
    add("a worker that is deaf when its peer fails",
        "--standalone --nproc-per-node 2 --shutdown-timeout 1", "deaf fails 0 0 4 stays 0", slow=True,
        differs={"takes": "SHUTDOWN-TIMEOUT", "summary 0": "STOPPED-NO-FAILURE"})
    add("a timer that expires", "--standalone", program=["TIMER"],
        env={"TORCHELASTIC_ENABLE_FILE_TIMER": "1"}, only=True, differs={"exit": "FILE-TIMER"})


def table():
    found = {}

    def add(name, *args, **more):
        assert name not in found, name
        found[name] = scenario(*args, **more)
    two_nodes(add)
    on_purpose(add)

    # Every option that changes what a worker is given, in all its spellings.
    alone = {"--nnodes": "1", "--nproc-per-node": "2", "--rdzv-id": "job7", "--max-restarts": "3",
             "--role": "trainer", "--monitor-interval": "0.2", "--start-method": "fork",
             "--event-log-handler": "null", "--signals-to-handle": "SIGTERM,SIGINT",
             "--shutdown-timeout": "5", "--redirects": "3", "--tee": "3", "--logs-specs": "default",
             "--rdzv-conf": "join_timeout=30,last_call_timeout=1", "--node-rank": "0",
             "--master-addr": "127.0.0.1", "--local-addr": "127.0.0.1",
             "--local-ranks-filter": "0", "--duplicate-stdout-filters": "yes",
             "--duplicate-stderr-filters": "no"}
    for option, value in alone.items():
        for i, words in enumerate(both_spellings(option, value)):
            add(f"option {words}", f"--standalone {words} --log-dir LOGS", "say yes")
    for words in both_spellings("--virtual-local-rank"):
        add(f"flag {words}", f"--standalone {words}", env={"CUDA_VISIBLE_DEVICES": "4,5"})
    for letters in ("-r 3", "-t 3", "-r3", "-t 0:1", "-r 0:1,1:2 --nproc-per-node 2",
                    "-t 0:3 --nproc-per-node 2", "-r 1 -t 2"):
        add(f"letters {letters}", f"--standalone {letters} --log-dir LOGS", "say hello")
    add("a unique prefix of an option", "--standal --max-res 2")
    add("the last of two values", "--standalone --max-restarts 2 --max-restarts 4")
    add("two dashes before the program", "--standalone --no-python --", program=["sh", "WORKER"])
    add("options after the program are its own", "--standalone", "say --nnodes say -r")
    for quote in "'", '"':
        add(f"--rdzv-conf in {quote} that reach the program",
            f"--standalone --rdzv-conf={quote}join_timeout=5,timeout=5{quote}")
    add("standalone wins over an endpoint", "--standalone --rdzv-endpoint nowhere.invalid:1")

    # Variables in place of options.
    for name, value in {"NNODES": "1", "NPROC_PER_NODE": "2", "STANDALONE": "1", "RDZV_ID": "seven",
                        "MAX_RESTARTS": "2", "ROLE": "actor", "LOG_DIR": "LOGS", "REDIRECTS": "3",
                        "TEE": "1", "MONITOR_INTERVAL": "0.3", "SHUTDOWN_TIMEOUT": "7",
                        "SIGNALS_TO_HANDLE": "SIGTERM", "NO_PYTHON": "1",
                        "VIRTUAL_LOCAL_RANK": "1"}.items():
        add(f"variable PET_{name}", "" if name == "STANDALONE" else "--standalone", "say yes",
            env={f"PET_{name}": value})
    add("the command line wins over its variable", "--standalone --max-restarts 1",
        env={"PET_MAX_RESTARTS": "9"})
    add("a flag's variable of 0 is off", "--nnodes 1", env={"PET_STANDALONE": "0"})

    # What workers are given.
    add("OMP_NUM_THREADS for one worker", "--standalone", env={"OMP_NUM_THREADS": None})
    add("OMP_NUM_THREADS for two", "--standalone --nproc-per-node 2", env={"OMP_NUM_THREADS": None},
        differs={"OMP banner": "OMP-BANNER"})
    add("OMP_NUM_THREADS for two, told more", "--standalone --nproc-per-node 2",
        env={"OMP_NUM_THREADS": None, "LOGLEVEL": "INFO"})
    add("OMP_NUM_THREADS that is set", "--standalone --nproc-per-node 2",
        env={"OMP_NUM_THREADS": "5"})
    add("async error handling that is set", "--standalone",
        env={"TORCH_NCCL_ASYNC_ERROR_HANDLING": "3"})
    add("the agent's own store disabled", "--standalone",
        env={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"})
    add("the local rank in an argument", "--standalone --nproc-per-node 2",
        "say x$local_rank say ${local_rank}y say $$local_rank say $other")
    add("an environment that is passed on", "--standalone", env={"MINE": "a b=c", "RANK": "77"})
    add("processors as workers", "--standalone --nproc-per-node cpu")
    add("auto without an accelerator", "--standalone --nproc-per-node auto")

    # Rendezvous.
    add("one node and no rendezvous", "--nnodes 1:1")
    add("static with a port of its own", "--master-port PORT")
    add("c10d on this machine", "--rdzv-backend c10d --rdzv-endpoint localhost:PORT --rdzv-id a")
    add("static, two nodes", "--nnodes 2 --master-addr 127.0.0.1 --master-port PORT",
        nodes=["--node-rank 0", "--node-rank 1"])
    add("static, two nodes of two and one", "--nnodes 2 --master-addr 127.0.0.1 --master-port PORT",
        nodes=["--node-rank 0 --nproc-per-node 2", "--node-rank 1"])
    add("static by endpoint", "--nnodes 2 --rdzv-backend static --rdzv-endpoint 127.0.0.1:PORT",
        nodes=["--node-rank 0", "--node-rank 1"])
    add("c10d, two nodes", "--nnodes 2 --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:PORT "
        "--rdzv-id two --nproc-per-node 1", nodes=["", ""])
    add("c10d, two nodes with local addresses",
        "--nnodes 2 --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:PORT --rdzv-id two "
        "--local-addr 127.0.0.1", nodes=["", ""])
    add("static, roles by node", "--nnodes 2 --master-addr 127.0.0.1 --master-port PORT",
        nodes=["--node-rank 0 --role reader --nproc-per-node 2", "--node-rank 1 --role writer"])

    # Ends.
    add("a worker that exits with 3", "--standalone --log-dir LOGS", "exit 3")
    add("a worker that is killed", "--standalone --log-dir LOGS", "signal KILL")
    add("a worker that aborts", "--standalone", "signal ABRT")
    add("one of two fails", "--standalone --nproc-per-node 2", "rank 1 exit 4")
    add("restarts until it works", "--standalone --max-restarts 2 --log-dir LOGS -r 3",
        "say hello fail-once")
    add("restarts that are spent", "--standalone --max-restarts 1 --log-dir LOGS -r 3", "exit 6")
    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"):
        add(f"{name} to the agent", "--standalone --nproc-per-node 2", "hold", signal=name)
    add("a missing script", "--standalone", program=["nowhere.py"], refused=True,
        differs={"summary 0": "MISSING-SCRIPT"})
    add("a missing script by --run-path", "--standalone --run-path", program=["nowhere"], refused=True,
        differs={aspect: "MISSING-SCRIPT" for aspect in ("summary 0", "tree", "errors")})
    add("a missing program", "--standalone --no-python", program=["nowhere"], refused=True)
    add("a file by --run-path", "--standalone --run-path", program=["RUN_PATH", "--lr", "1"])
    add("an agent's error file of a plain failure", "--standalone", "exit 3",
        env={"TORCHELASTIC_ERROR_FILE": "ERROR"}, differs={"error_file 0": "AGENT-ERROR-FILE"})
    for what in ("raise", "nested", "exit0", "exit3"):
        add(f"a recorded {what}", "--standalone --log-dir LOGS", program=["RECORD", what],
            env={"TORCHELASTIC_ERROR_FILE": "ERROR"},
            differs={"error_file 0": "AGENT-ERROR-FILE"} if what == "exit3" else {})
    add("a program that is no Python file", "--standalone", program=["/bin/true"],
        differs={"exit": "PROGRAM-KIND", "summary 0": "PROGRAM-KIND"})

    # Output.
    add("tee of all", "--standalone --nproc-per-node 2 -t 3 --log-dir LOGS", "say hello")
    add("tee with a prefix of one's own", "--standalone -t 3 --log-dir LOGS", "say hello",
        env={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "<${role_name}|${rank}|${local_rank}> "})
    add("redirects of all", "--standalone --nproc-per-node 2 -r 3 --log-dir LOGS", "say hello")
    add("only some ranks on the console",
        "--standalone --nproc-per-node 2 -t 3 --local-ranks-filter 1 --log-dir LOGS", "say hello")
    add("only some ranks, nothing redirected",
        "--standalone --nproc-per-node 2 --local-ranks-filter 1", "say hello")
    add("lines that match go to one file more",
        "--standalone -t 3 --log-dir LOGS --duplicate-stdout-filters two,x --duplicate-stderr-filters "
        "one", "say one say two say three")
    add("no log files", "--standalone --log-dir /dev/null", "say hello")
    add("a log directory that is not there yet", "--standalone -r 3 --log-dir LOGS/a/b", "say hi")

    # What both refuse.
    for words in ("--no-such-option", "--max-restarts many", "--nnodes", "--start-method thread",
                  "--standalone --monitor-interval soon", "--nproc-per-node", "--numa-binding moon",
                  "--shutdown-timeout 1.5", "--master-port http", "--n 1"):
        add(f"refused usage: {words}", words, refused=True)
    for words in ("--nnodes 1:2:3", "--nnodes two", "--nnodes 3:2", "--nnodes 0",
                  "--standalone --nproc-per-node 0", "--standalone --nproc-per-node -1",
                  "--standalone --nproc-per-node foo", "--standalone --nproc-per-node gpu",
                  "--standalone --nproc-per-node xpu", "--standalone --max-restarts -1",
                  "--standalone --monitor-interval 0", "--standalone -r 4", "--standalone -r 0:4",
                  "--standalone -t 0:1,", "--standalone -m", "--standalone --shutdown-timeout -2",
                  "--standalone --local-ranks-filter a", "--standalone --log-dir /dev/null/x",
                  "--standalone --logs-specs mine", "--rdzv-backend zookeeper --rdzv-endpoint h:1",
                  "--nnodes 2 --rdzv-backend c10d --rdzv-endpoint h:99999 --rdzv-id x",
                  "--nnodes 2 --rdzv-backend c10d --rdzv-endpoint h:port --rdzv-id x",
                  "--nnodes 2 --rdzv-backend c10d --rdzv-endpoint a/b:1 --rdzv-id x",
                  "--standalone --rdzv-conf a", "--standalone --rdzv-conf =1"):
        add(f"refused: {words}", words, refused=True)
    add("refused: no program", "--standalone", program=[], refused=True)
    add("refused: a flag's variable that is no number", env={"PET_STANDALONE": "yes"}, refused=True)
    add("help", "--help", program=[])
    return found
