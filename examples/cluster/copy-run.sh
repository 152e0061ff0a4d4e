#!/usr/bin/env bash
# Copies a run's folder to object storage while the run goes on, so that the copy can be continued at any moment; docs/clusters.md explains the order.
#
#     copy-run.sh RUN REMOTE        REMOTE: of rclone, such as s3:bucket/runs/NAME, or a folder; needs rclone
#
# Back: rclone copy REMOTE RUN, then vf-train -R RUN.
set -eu
run=${1%/} remote=${2%/}
# Being written, or of the process that writes.
unfinished=(--exclude '*.tmp' --exclude '*.tmp/**' --exclude '/.lock~*')
# A file may grow while it is copied: the next copy has the rest, a resume drops a torn last line, and a checkpoint has checksums of its own.
copy() { rclone copy "$1" "$2" "${unfinished[@]}" --ignore-checksum --ignore-size --local-no-check-updated "${@:3}"; }

# First the checkpoints: the records, copied later, then reach at least as far.
[ ! -d "$run/checkpoints" ] || copy "$run/checkpoints" "$remote/checkpoints"
copy "$run" "$remote" --exclude '/checkpoints/**' --exclude '/images/**'
# The pictures after the rollouts that name them.
[ ! -d "$run/images" ] || copy "$run/images" "$remote/images"
# Last, what the run has deleted: until here the copy has kept the checkpoints before. Not rclone sync, which would copy a checkpoint that is newer than the records.
rclone lsf --dirs-only "$remote/checkpoints" 2>/dev/null | while read -r old; do
  [ -d "$run/checkpoints/$old" ] || rclone purge "$remote/checkpoints/${old%/}"
done
