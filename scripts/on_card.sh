#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# For somebody who has a card: run models on it and on the virtual card, compare step by step with values and kernel
# times, and put what the card answered into corpora that `tt-cnn conformance` and the cost model's benchmark read.
#
#   scripts/on_card.sh                       all models of the package
#   scripts/on_card.sh resnet50 my_net.py    these (whatever `tt-cnn conformance --live` takes)
#
#   -p PYTHON   an interpreter that has ttnn 0.81.1; without it a virtual environment is made in .venv-card
#   -o DIR      where the corpora go (default: on_card)
#   -n          no kernel times: the profiler is not run
#
# The end is DIR.tar.gz. Each part that could not be had is named at the end, with the reason. On a mocked card no
# kernel runs: steps and calls are compared and recorded, values and times are absent.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
python="" out="on_card" times=yes
while getopts "p:o:nh" option; do
  case $option in
    p) python=$OPTARG ;;
    o) out=$OPTARG ;;
    n) times=no ;;
    h) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))

say() { printf '%s\n' "$*"; }
fail() { printf 'on_card.sh: %s\n' "$*" >&2; exit 2; }

make_environment() {
  for version in python3.10 python3.12; do
    if command -v "$version" >/dev/null; then
      say "making .venv-card with $version, ttnn 0.81.1 and this package (some GB)"
      "$version" -m venv "$root/.venv-card"
      "$root/.venv-card/bin/pip" install -q ttnn==0.81.1 -e "$root"
      return
    fi
  done
  fail "ttnn 0.81.1 needs Python 3.10 or 3.12 and neither is here; name an interpreter that has it with -p"
}

if [[ -z $python ]]; then
  [[ -x $root/.venv-card/bin/python ]] || make_environment
  python=$root/.venv-card/bin/python
fi
[[ -x $python ]] || fail "$python is not an executable"
"$python" -c 'import ttnn' >/dev/null 2>&1 || fail "$python has no ttnn; see -h"

# The command itself runs under the interpreter of the card where the package is installed there, else under ours.
if "$python" -c 'import tt_cnn, typer' >/dev/null 2>&1; then
  command=("$python" -m tt_cnn.cli)
elif [[ -x $root/.venv/bin/python ]]; then
  command=("$root/.venv/bin/python" -m tt_cnn.cli)
else
  fail "the package is installed neither for $python nor in $root/.venv; run make install, or pip install -e $root"
fi
export PYTHONPATH="$root/src${PYTHONPATH:+:$PYTHONPATH}"

if (($# == 0)); then
  mapfile -t names < <("${command[0]}" -c 'from tt_cnn.models import list_models; print(*list_models(), sep="\n")')
  set -- "${names[@]}"
fi

mocked=$("$python" -c 'import os; print(os.environ.get("TT_METAL_MOCK_CLUSTER_DESC_PATH", ""))' | tail -1)
mkdir -p "$out"
absent=()
differs=0

steps_file() {  # of a program: the recording that --record wrote
  local name=${1%.py}
  name=$(printf '%s' "$name" | tr -c '[:alnum:]_\n' '_' | sed 's/^_*//; s/_*$//')
  ls -t "$out"/steps_"$name"_*.json.gz 2>/dev/null | head -1
}

profile() {  # kernel times of one program, from tt-metal's profiler
  local program=$1 steps=$2 folder=$out/profiler times=${2/steps_/times_}
  times=${times%.json.gz}.jsonl.gz
  rm -rf "$folder"
  if ! TT_CNN_RUNTIME=ttnn "$python" -m tracy -p -r --no-web-server --op-support-count 10000 -o "$folder" \
    -m tt_cnn.conformance.live.profiled "$program" >"$out/profiler.log" 2>&1; then
    absent+=("kernel times of $program: the profiler failed, see $out/profiler.log")
    return
  fi
  local sheet
  sheet=$(find "$folder" -name 'ops_perf_results*.csv' | sort | tail -1)
  if [[ -z $sheet ]]; then
    absent+=("kernel times of $program: the profiler wrote no sheet, see $out/profiler.log")
    return
  fi
  "${command[0]}" -m tt_cnn.conformance.live.kernel_times "$sheet" "$steps" "$times"
  rm -rf "$folder"
}

[[ -z $mocked ]] || absent+=("values and kernel times: the card is mocked ($mocked)")
values=(--values)
[[ -z $mocked ]] || values=()

for program in "$@"; do
  status=0
  "${command[@]}" conformance --live "$program" --python "$python" --record "$out" "${values[@]}" \
    2>&1 | tee "$out/$(basename "${program%.py}").txt" || status=$?
  ((status <= 1)) || { absent+=("$program: it could not be run"); continue; }
  differs=$((differs | status))
  if [[ $times == yes && -z $mocked ]]; then
    profile "$program" "$(steps_file "$program")"
  fi
done

tar -czf "$out.tar.gz" -C "$(dirname "$out")" "$(basename "$out")"
say ""
say "written: $out.tar.gz"
for one in "${absent[@]}"; do say "absent: $one"; done
exit $differs
