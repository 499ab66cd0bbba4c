# What a worker was given, into $DUMP, then what the rest of the arguments say. A life is the number of
# times that this rank was started before, whatever the launcher calls it.
#   exit N, signal N   how it ends
#   say TEXT           on both streams
#   fail-once          in life 0
#   rank R             the others end here, with 0; rank R goes on once they are gone
#   hold, save         until SIGTERM, SIGINT or SIGHUP; ends with 9, or with 0 as one that has saved
#   deaf               SIGTERM is ignored from the start
#   fails R LIFE HOW   rank R exits with HOW, or of the signal HOW, in that life
#   loses LIFE         in that life: waits until that rank is gone, and then fails with 6
#   stays LIFE         in that life: runs until it is ended
lives=0
while [ -e "$DUMP/$GROUP_RANK.$LOCAL_RANK.$lives.state" ]; do lives=$((lives + 1)); done
name=$DUMP/$GROUP_RANK.$LOCAL_RANK.$lives
case " $* " in *" deaf "*) trap '' TERM ;; esac
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
while [ "$(ls "$DUMP"/*."$lives".state | wc -l)" -lt "$WORLD_SIZE" ]; do
  tries=$((tries + 1))
  [ $tries -lt 1500 ] || exit 99
  sleep 0.02
done
# `over` ends those that their launcher has left behind.
stay() { while [ ! -e "$DUMP/over" ]; do sleep 0.05; done; exit 98; }
# As stay, but the shell alone is hit by what its group is sent: of a sleep's end it would tell.
hold() {
  echo ready >"$name.ready"
  while [ ! -e "$DUMP/over" ]; do (trap '' TERM INT HUP; exec sleep 0.05); done
  exit 98
}
# Until the agents of all other ranks have seen their ends: then their processes are gone.
await_others() {
  while [ "$(ls "$DUMP"/*."$lives".ends 2>/dev/null | wc -l)" -lt $((WORLD_SIZE - 1)) ]; do
    sleep 0.02
  done
  for ended in "$DUMP"/*."$lives".ends; do
    while [ -e "/proc/$(cat "$ended")" ]; do sleep 0.02; done
  done
}
while [ $# -gt 0 ]; do
  case $1 in
    exit) exit "$2" ;;
    signal) kill -"$2" $$ ; shift ;;
    say) echo "out $RANK $2"; echo "err $RANK $2" >&2; shift ;;
    fail-once) [ $lives != 0 ] || exit 5 ;;
    rank)
      if [ "$RANK" != "$2" ]; then
        echo $$ >"$name.part"
        mv "$name.part" "$name.ends"
        exit 0
      fi
      await_others
      shift ;;
    hold) trap 'exit 9' TERM INT HUP; hold ;;
    save) trap 'exit 0' TERM INT HUP; hold ;;
    fails)
      if [ "$RANK" = "$2" ] && [ $lives = "$3" ]; then
        echo $$ >"$DUMP/lost.part"
        mv "$DUMP/lost.part" "$DUMP/lost.$lives"
        case $4 in [0-9]*) exit "$4" ;; *) kill -"$4" $$; stay ;; esac
      fi
      shift 3 ;;
    loses)
      if [ $lives = "$2" ]; then
        while [ ! -e "$DUMP/lost.$lives" ]; do sleep 0.02; done
        # Its agent has seen the end when the process is gone.
        while [ -e "/proc/$(cat "$DUMP/lost.$lives")" ]; do sleep 0.02; done
        exit 6
      fi
      shift ;;
    stays) [ $lives != "$2" ] || stay; shift ;;
  esac
  shift
done
