# Completion of ddpctl for bash.
_ddpctl() {
  local current=${COMP_WORDS[COMP_CWORD]} verb= word
  COMPREPLY=()
  case ${COMP_WORDS[COMP_CWORD - 1]} in
    --job-token-file | --tls-ca | --tls-cert | --tls-key)
      mapfile -t COMPREPLY < <(compgen -f -- "$current") && return ;;
    --job | --pid | --at | --rank | -d | --interval | -n | --count) return ;;
  esac
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $word in
      status | top | logs | stacks | save | drain | stop) verb=$word ;;
    esac
  done
  local words='--job --pid --at --job-token-file --tls-ca --tls-cert --tls-key --help'
  case $verb in
    '') words+=' --version status top logs stacks save drain stop' ;;
    status) words+=' --json' ;;
    top) words+=' --interval --count -d -n' ;;
    logs) words+=' --follow --rank -f' ;;
    stacks) words+=' --rank' ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -F _ddpctl ddpctl
