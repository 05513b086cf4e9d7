# shellcheck shell=bash
# step.sh - sourced by the scripts: says what is going on, keeps noise in a log, shows it when something fails.
#   say TEXT                     one line
#   step TEXT COMMAND...         runs a command with its output in a log; a dot every two seconds, the time at the end,
#                                and the end of the log when it fails
#   die TEXT                     one line on stderr, exit 1

step_name=${step_name:-radish}

say() { printf '[%s] %s\n' "$step_name" "$*"; }
die() { printf '[%s] %s\n' "$step_name" "$*" >&2; exit 1; }

step() {
  local text=$1 log pid began rc=0 ticks=0
  shift
  log=$(mktemp)
  began=$(date +%s)
  printf '[%s] %s ' "$step_name" "$text"
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  # Ctrl-C reaches the command too (same process group); without a group, it is ended here.
  trap 'kill "$pid" 2>/dev/null; rm -f "$log"; echo; exit 130' INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    ticks=$((ticks + 1))
    [ $((ticks % 10)) != 0 ] || printf .
  done
  wait "$pid" || rc=$?
  trap - INT TERM
  if [ "$rc" = 0 ]; then
    printf ' done (%d s)\n' $(($(date +%s) - began))
  else
    printf ' FAILED (exit %d)\n' "$rc"
    tail -n "${step_log_lines:-40}" "$log" >&2
  fi
  rm -f "$log"
  return "$rc"
}
