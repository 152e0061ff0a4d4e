#!/usr/bin/env bash
# Trains one run to its end, again and again through kills, lost servers and restarted machines; docs/clusters.md explains it.
#
#     train-until-done.sh FOLDER ARGUMENTS...        FOLDER: of this job alone; ARGUMENTS: those of vf-train for a new run
#
# Ends with 0 if the run has finished, with 2 or 3 if another try would end in the same way, with 129, 130 or 143 if this script was asked to stop, and with
# vf-train's exit code after VF_TRIES (default 3) tries in a row that took no step. Waits VF_PAUSE_S seconds (default 30) between tries.
set -u
folder=$1
shift
child=

# Passes a signal on: vf-train then ends after writing what it has.
stop() { stopped=$1; [ -z "$child" ] || kill -"$2" "$child" 2>/dev/null; }
stopped=
trap 'stop 143 TERM' TERM
trap 'stop 130 INT' INT
trap 'stop 129 HUP' HUP

run_folder() { for config in "$folder"/train/*/config.toml; do [ -e "$config" ] && dirname "$config" && return; done; }
# Changes with every step that the run has taken.
state() { [ -z "$run" ] || { wc -l <"$run/metrics.jsonl"; ls "$run/checkpoints"; } 2>/dev/null; }

start() {
  if [ -n "$run" ]; then vf-train -R "$run" & else vf-train "$@" --output-dir "$folder" & fi
  child=$!
  # A signal ends wait before the child has ended.
  wait "$child"
  code=$?
  while kill -0 "$child" 2>/dev/null; do
    wait "$child"
    code=$?
  done
  child=
}

mkdir -p "$folder"
fruitless=0
while :; do
  run=$(run_folder)
  before=$(state)
  start "$@"
  [ -z "$stopped" ] || exit "$stopped"
  case $code in
    0 | 2 | 3 | 129 | 130 | 143) exit "$code" ;;
  esac
  run=$(run_folder)
  if [ "$(state)" != "$before" ]; then fruitless=0; else fruitless=$((fruitless + 1)); fi
  if [ "$fruitless" -ge "${VF_TRIES:-3}" ]; then
    echo "train-until-done: $fruitless tries in a row took no step; the last ended with $code" >&2
    exit "$code"
  fi
  echo "train-until-done: vf-train ended with $code; continuing in ${VF_PAUSE_S:-30} s" >&2
  sleep "${VF_PAUSE_S:-30}" &
  child=$!
  wait "$child"
  child=
  [ -z "$stopped" ] || exit "$stopped"
done
