# shellcheck shell=bash
# background.sh - sourced by scripts/test: work that goes on beside the tests, with what these leave of the processors, as most of them wait
# rather than compute. Each piece has a name, a log and a status in $results; whoever needs it waits for it and sees how it went.
#   background COMMAND...              starts a command, a function of the script as well, which runs pieces one after another
#   piece NAME COMMAND...              one of them; the next begins even when it failed
#   step_awaiting NAME TEXT            a step (step.sh) that waits for one: its log when it failed, its exit status

background_groups=""

background() {
  set -m # a process group of its own, which ends as a whole
  "$@" &
  background_groups="$background_groups -$!"
  set +m
}
# shellcheck disable=SC2086 # a list
end_background() { [ -z "$background_groups" ] || kill -- $background_groups 2>/dev/null; }
trap end_background EXIT

# shellcheck disable=SC2154 # $results is the caller's
piece() {
  local name=$1 rc=0
  shift
  "$@" >"$results/$name.log" 2>&1 </dev/null || rc=$?
  echo $rc >"$results/$name.status"
}

await() {
  local status
  # shellcheck disable=SC2086 # a list; one that is alive is enough
  until [ -s "$results/$1.status" ] || ! kill -0 -- $background_groups 2>/dev/null; do sleep 0.2; done
  cat "$results/$1.log"
  status=$(cat "$results/$1.status" 2>/dev/null) || status=1 # it was ended from outside
  return "$status"
}
step_awaiting() { step_log_lines=120 step "$2" await "$1"; }
