#!/usr/bin/env bash
# Sets up, builds and tests.
#
#   tools/test.sh [--preset NAME] [--target NAME]... [ctest arguments]
#
# --preset: of CMakePresets.json, "release" when not given. --target: build these only. The last line
# is "N passed, N failed, N skipped"; the exit status is that of ctest.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release targets=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    --preset) preset="$2"; shift 2 ;;
    --target) targets+=(--target "$2"); shift 2 ;;
    *) break ;;
  esac
done

tools/setup.sh
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cmake --preset "$preset" > "$log" || { cat "$log" >&2; exit 1; }
cmake --build --preset "$preset" "${targets[@]}"

build="build/$preset"
report="$PWD/$build/tests.xml"
rm -f "$report"
status=0
ctest --preset "$preset" --parallel "$(nproc)" --output-junit "$report" "$@" || status=$?

# The attributes of the report's first element: tests="..." failures="..." disabled="..." skipped="...".
count() { grep -m 1 -o "$1=\"[0-9]*\"" "$report" 2> /dev/null | grep -o '[0-9]*' || echo 0; }
total=$(count tests) failed=$(count failures) skipped=$(($(count skipped) + $(count disabled)))
echo "$((total - failed - skipped)) passed, $failed failed, $skipped skipped"
if [[ $status -eq 0 && $total -eq 0 ]]; then
  echo "tools/test.sh: no test ran" >&2
  exit 1
fi
exit $status
