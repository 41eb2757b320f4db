#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Random programs on a machine with an NVIDIA GPU and torch: `scripts/differential_on_gpu.sh FIRST_SEED [SECONDS] [FOLDER]`.
# Several processes share the GPU; the counts of each go to FOLDER and are printed in the end.
set -uo pipefail
cd "$(dirname "$0")/.."
first=${1:?"usage: scripts/differential_on_gpu.sh FIRST_SEED [SECONDS] [FOLDER]"} seconds=${2:-420} logs=${3:-out/differential}
mkdir -p "$logs"
export PYTHONPATH="$PWD:$PWD/src" OMP_NUM_THREADS=1
i=0
for engine in cuda cuda cuda cuda cuda cuda-device cuda-device cuda-exact device kernels steps; do
  python3 -m tests.differential.run --threads 1 --seconds "$seconds" --programs 100000 \
    --engines "$engine" --first $((first + 10000 * i)) >"$logs/$engine-$i.log" 2>&1 &
  i=$((i + 1))
done
wait
status=0
for log in "$logs"/*.log; do
  grep -h "programs," "$log" || { echo "$log: no counts"; status=1; }
  if grep -qE "[1-9][0-9]* (differences|faults)" "$log"; then status=1; fi
done
exit $status
