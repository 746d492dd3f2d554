#!/bin/bash
# runc for a machine without CAP_SYS_RESOURCE, on which plain runc refuses privileged containers. Before runc reads the
# OCI specification, this script removes what needs that capability: the capability itself in all sets, resource limits,
# and an out-of-memory score below this process's own.
# runc reads the specification from BUNDLE/config.json (create, run) or from the file of --process (exec).
set -euo pipefail
command="" bundle="." process="" previous=""
for argument in "$@"; do
  case $previous in
    --bundle | -b) bundle=$argument ;;
    --process) process=$argument ;;
    -p) if [ "$command" = exec ]; then process=$argument; fi ;;
  esac
  case $argument in
    create | run | exec) command=${command:-$argument} ;;
    --bundle=*) bundle=${argument#*=} ;;
    --process=*) process=${argument#*=} ;;
  esac
  previous=$argument
done
case $command in
  create | run) specification=$bundle/config.json ;;
  exec) specification=$process ;;
  *) specification="" ;;
esac
if [ -f "$specification" ]; then
  jq -c '
    def allowed:
      (if .capabilities then .capabilities |= map_values(if type == "array" then . - ["CAP_SYS_RESOURCE"] else . end)
       else . end)
      | del(.rlimits)
      | (if (.oomScoreAdj // 0) < 0 then .oomScoreAdj = 0 else . end);
    if .process then .process |= allowed else allowed end' "$specification" > "$specification.allowed"
  # Written into the same file, as runc's caller relies on its name and permissions.
  cat "$specification.allowed" > "$specification"
  rm "$specification.allowed"
fi
exec /usr/sbin/runc "$@"
