# What the scripts share. Sourced, never run: `. "$(dirname "$0")/lib.sh"`.
# Sets `root` (the repository) and `jobs`, and changes to the repository.
set -euo pipefail
export LC_ALL=C.UTF-8
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
jobs=$(nproc)
cd "$root"

say() { printf '%s\n' "$*"; }

# One sentence on stderr, and out.
die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# A preset's build folder, as CMakePresets.json has it. (portable is for scripts/package.)
build_dir() {
  case $1 in
    release) printf build ;;
    debug | asan | tsan | portable) printf 'build-%s' "$1" ;;
    *) die "no preset '$1': there are release, debug, asan and tsan" ;;
  esac
}

# The first cmake that is new enough for the presets. Debian's comes first: a newer one from
# another place (pip, conda) tends to find that place's libraries too.
find_cmake() {
  local candidate version
  for candidate in /usr/bin/cmake "$(command -v cmake || true)"; do
    [ -x "$candidate" ] || continue
    version=$("$candidate" --version | sed -n '1s/[^0-9]*//p')
    if [ "$(printf '%s\n' 3.25 "$version" | sort -V | head -n 1)" = 3.25 ]; then
      printf '%s' "$candidate"
      return
    fi
  done
  die "no cmake of 3.25 or newer; run scripts/setup"
}

# build PRESET [TARGET...]: configures (quick when nothing changed) and builds. What went well
# stays in a log; what went wrong is shown.
build() {
  local preset=$1 dir log cmake targets run
  shift
  dir=$(build_dir "$preset") || exit 1
  cmake=$(find_cmake) || exit 1
  log=$dir/build.log
  mkdir -p "$dir"
  targets=("$@")
  if ! "$cmake" --preset "$preset" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    die "configuring the preset $preset failed; the whole log is $root/$log"
  fi
  run=("$cmake" --build "$dir" -j "$jobs" ${targets[@]+--target "${targets[@]}"})
  # With a terminal ninja shows its progress in one line; a log gets no line per file.
  if [ -t 1 ]; then
    "${run[@]}" || die "building the preset $preset failed"
  elif ! "${run[@]}" >>"$log" 2>&1; then
    grep -A 30 -m 1 -E 'FAILED:|error:' "$log" >&2 || tail -n 40 "$log" >&2
    die "building the preset $preset failed; the whole log is $root/$log"
  fi
}
