# What a worker was given, into $DUMP, then what the rest of the arguments say: `exit N`, `signal N`,
# `say TEXT` (on both streams), `fail-once` (in attempt 0), `rank R ...` (only for that rank), `hold`.
name=$DUMP/$GROUP_RANK.$LOCAL_RANK.$TORCHELASTIC_RESTART_COUNT
tr '\0' '\n' </proc/$$/environ >"$name.env"
tr '\0' '\n' </proc/$$/cmdline >"$name.argv"
{
  echo "cwd $(pwd)"
  echo "umask $(umask)"
  while read -r key value; do
    case $key in SigBlk: | SigIgn: | SigCgt:) echo "$key $value" ;; esac
  done </proc/$$/status
  read -r _ _ _ _ group session _ </proc/$$/stat
  [ "$group" = $$ ] && echo "leads its group"
  [ "$session" = $$ ] && echo "leads its session"
  echo "stdin $(readlink /proc/$$/fd/0)"
  for fd in /proc/$$/fd/*; do
    case ${fd##*/} in 0 | 1 | 2 | 10 | 255) ;; *) echo "fd ${fd##*/}" ;; esac
  done
} >"$name.part"
mv "$name.part" "$name.state"
# Nobody goes on, and maybe ends the others, before all have written what they were given.
tries=0
while [ "$(ls "$DUMP"/*."$TORCHELASTIC_RESTART_COUNT".state | wc -l)" -lt "$WORLD_SIZE" ]; do
  tries=$((tries + 1))
  [ $tries -lt 300 ] || break
  sleep 0.02
done
while [ $# -gt 0 ]; do
  case $1 in
    exit) exit "$2" ;;
    signal) kill -"$2" $$ ; shift ;;
    say) echo "out $RANK $2"; echo "err $RANK $2" >&2; shift ;;
    fail-once) [ "$TORCHELASTIC_RESTART_COUNT" != 0 ] || exit 5 ;;
    rank) [ "$RANK" = "$2" ] || exit 0; shift ;;
    hold) trap 'exit 9' TERM INT HUP; echo ready >"$name.ready"; while :; do sleep 0.05; done ;;
  esac
  shift
done
