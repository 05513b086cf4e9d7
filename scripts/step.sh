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
  # The names are long because the command may be a function of the caller, which would see short ones in place of its own.
  local step_text=$1 step_log step_pid step_began step_rc=0 step_ticks=0
  shift
  step_log=$(mktemp)
  step_began=$(date +%s)
  printf '[%s] %s ' "$step_name" "$step_text"
  "$@" >"$step_log" 2>&1 </dev/null &
  step_pid=$!
  # Ctrl-C reaches the command too (same process group); without a group, it is ended here.
  trap 'kill "$step_pid" 2>/dev/null; rm -f "$step_log"; echo; exit 130' INT TERM
  while kill -0 "$step_pid" 2>/dev/null; do
    sleep 0.2
    step_ticks=$((step_ticks + 1))
    [ $((step_ticks % 10)) != 0 ] || printf .
  done
  wait "$step_pid" || step_rc=$?
  trap - INT TERM
  if [ "$step_rc" = 0 ]; then
    printf ' done (%d s)\n' $(($(date +%s) - step_began))
  else
    printf ' FAILED (exit %d)\n' "$step_rc"
    tail -n "${step_log_lines:-40}" "$step_log" >&2
  fi
  rm -f "$step_log"
  return "$step_rc"
}
