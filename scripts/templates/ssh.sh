#!/bin/bash
# ddprun over plain ssh: one agent on each of the named machines, ddprun installed on all of them.
#   ./ssh.sh node1 node2
# The rendezvous is on the first one. ssh -tt: ^C here ends the agents there, in order.
set -euo pipefail
if [ $# -eq 0 ]; then
  echo "usage: $0 HOST..." >&2
  exit 2
fi

agents=()
for host in "$@"; do
  ssh -tt -o BatchMode=yes "$host" ddprun \
    --nnodes $# --nproc-per-node gpu \
    --rdzv-id "$(id -un)-$$" --rdzv-endpoint "$1:29400" \
    --max-restarts 3 \
    train linear 50 10 </dev/null &
  agents+=($!)
done

# The script's exit code is that of an agent that did not end well.
code=0
for agent in "${agents[@]}"; do
  wait "$agent" || code=$?
done
exit "$code"
