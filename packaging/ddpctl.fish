# Completion of ddpctl for fish.
set -l verbs status top logs stacks save drain stop
complete -c ddpctl -f
complete -c ddpctl -l job -x -d 'The agent of this job'
complete -c ddpctl -l pid -x -d 'The agent with this process id'
complete -c ddpctl -l help -d 'Show help'
complete -c ddpctl -n "not __fish_seen_subcommand_from $verbs" -l version -d 'Show the version'
complete -c ddpctl -n "not __fish_seen_subcommand_from $verbs" -a status -d 'How the job is'
complete -c ddpctl -n "not __fish_seen_subcommand_from $verbs" -a top -d 'Processors, memory, steps, GPUs'
complete -c ddpctl -n "not __fish_seen_subcommand_from $verbs" -a logs -d 'Output of the workers'
complete -c ddpctl -n "not __fish_seen_subcommand_from $verbs" -a stacks -d 'What the workers are about'
complete -c ddpctl -n "not __fish_seen_subcommand_from $verbs" -a save -d 'Preempt the job'
complete -c ddpctl -n "not __fish_seen_subcommand_from $verbs" -a drain -d 'Let this node leave'
complete -c ddpctl -n "not __fish_seen_subcommand_from $verbs" -a stop -d 'End the job'
complete -c ddpctl -n '__fish_seen_subcommand_from status' -l json -d 'As JSON'
complete -c ddpctl -n '__fish_seen_subcommand_from top' -s d -l interval -x -d 'Seconds between looks'
complete -c ddpctl -n '__fish_seen_subcommand_from top' -s n -l count -x -d 'Looks'
complete -c ddpctl -n '__fish_seen_subcommand_from logs' -s f -l follow -d 'Go on as it grows'
complete -c ddpctl -n '__fish_seen_subcommand_from logs stacks' -l rank -x -d 'Of this rank alone'
