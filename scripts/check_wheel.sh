#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Build the wheel, install it in a fresh environment outside of the checkout, and run the demo there.
# PYTHON names another interpreter, TORCH another torch to install first, EXTRAS the extras (separated by commas), and
# CONSTRAINTS a file of versions for pip.
set -euo pipefail
checkout="$(cd "$(dirname "$0")/.." && pwd)"
extras="${EXTRAS:-eval}"
constrained=()
if [ -n "${CONSTRAINTS:-}" ]; then constrained=(-c "$(realpath "$CONSTRAINTS")"); fi
place="$(mktemp -d)"
trap 'rm -rf "$place"' EXIT
mkdir "$place/source"  # a build leaves folders behind
(cd "$checkout" && cp -r pyproject.toml README.md LICENSE NOTICE src "$place/source")
"${PYTHON:-python3}" -m venv "$place/venv"
bin="$place/venv/bin"
unset PYTHONPATH
pip() { "$bin/python" -m pip "$@" -q --disable-pip-version-check; }
pip install "${constrained[@]}" "${TORCH:-torch==2.13.0}"
pip wheel --no-deps -w "$place/dist" "$place/source"
rm -rf "$place/source"
cd "$place"
pip install "${constrained[@]}" "$(echo "$place"/dist/tt_cnn-*.whl)[$extras]"
"$bin/python" -c "import tt_cnn; assert '$place/venv' in tt_cnn.__file__, tt_cnn.__file__; print(tt_cnn.__version__)"
export TT_CNN_CACHE="$place/cache"
for extra in ${extras//,/ }; do "$bin/tt-cnn" doctor --need "$extra"; done
case ",$extras," in *,eval,*)
  "$bin/tt-cnn" demo -o "$place/demo"
  test "$(ls "$place"/demo/*.png | wc -l)" -ge 4 ;;
esac
case ",$extras," in *,cpu,*)
  for engine in onnxruntime openvino; do "$bin/tt-cnn" bench mobilenetv2 --engine "$engine" --rounds 1; done ;;
esac
"$bin/tt-cnn" profile vanilla_unet -o "$place/profile" >"$place/profile.txt"
echo "the wheel works with $("$bin/python" -V) and $("$bin/python" -m pip freeze | grep -E '^(torch|numpy)==' | paste -sd ' '): $(ls "$place/dist")"
