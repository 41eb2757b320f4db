#!/usr/bin/env bash
# Build the wheel, install it in a fresh environment outside of the checkout, and run the demo there.
# TORCH names another torch to install first; PYTHON another interpreter.
set -euo pipefail
checkout="$(cd "$(dirname "$0")/.." && pwd)"
place="$(mktemp -d)"
trap 'rm -rf "$place"' EXIT
cp -r "$checkout" "$place/source"  # a build leaves folders behind
rm -rf "$place/source/build" "$place/source/dist" "$place/source/out" "$place/source/.venv"
"${PYTHON:-python3}" -m venv "$place/venv"
bin="$place/venv/bin"
unset PYTHONPATH
"$bin/pip" install -q --disable-pip-version-check "${TORCH:-torch==2.13.0}"
"$bin/pip" wheel -q --disable-pip-version-check --no-deps -w "$place/dist" "$place/source"
rm -rf "$place/source"
cd "$place"
"$bin/pip" install -q --disable-pip-version-check "$(echo "$place"/dist/tt_cnn-*.whl)[eval]"
"$bin/python" -c "import tt_cnn; assert '$place/venv' in tt_cnn.__file__, tt_cnn.__file__; print(tt_cnn.__version__)"
export TT_CNN_CACHE="$place/cache"
"$bin/tt-cnn" doctor --need eval
"$bin/tt-cnn" demo -o "$place/demo"
test "$(ls "$place"/demo/*.png | wc -l)" -ge 4
echo "the wheel works: $(ls "$place/dist")"
