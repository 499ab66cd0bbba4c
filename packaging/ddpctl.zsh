#compdef ddpctl
# Completion of ddpctl for zsh.
_ddpctl() {
  local context state line
  local -a verbs options
  verbs=('status:how the job is' 'top:processors, memory, steps and GPUs of this node'
    'logs:the output of the workers of this node' 'stacks:what the workers of this node are about'
    'save:preempt the job' 'drain:let a node leave in order' 'stop:end the job on every node')
  options=('--job[the agent of this job]:job id: ' '--pid[the agent with this process id]:pid: '
    '--at[the coordinator on another machine]:host and port: '
    '--job-token-file[the token of its job]:file:_files' '--tls-ca[the authority of its job]:file:_files'
    '--tls-cert[a certificate of that authority]:file:_files'
    '--tls-key[the key of that certificate]:file:_files' '--help[show help]')
  _arguments -C $options '--version[show the version]' '1: :->verb' '*:: :->rest' && return
  case $state in
    verb) _describe command verbs ;;
    rest)
      case $line[1] in
        status) _arguments $options '--json[as JSON]' ;;
        top) _arguments $options '(-d --interval)'{-d,--interval}'[seconds between looks]:seconds: ' \
          '(-n --count)'{-n,--count}'[looks]:count: ' ;;
        logs) _arguments $options '(-f --follow)'{-f,--follow}'[go on as it grows]' \
          '--rank[of this rank alone]:rank: ' ;;
        stacks) _arguments $options '--rank[of this rank alone]:rank: ' ;;
        *) _arguments $options ;;
      esac
      ;;
  esac
}

_ddpctl "$@"
