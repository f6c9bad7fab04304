#!/usr/bin/env bash
# Builds the fuzz targets (clang, AddressSanitizer, UndefinedBehaviorSanitizer) and runs them, one
# after another, from their seeds in tests/fuzz/corpus.
#
#   tools/fuzz.sh [--runs N] [target...]
#
# --runs: of each target, 100,000 when not given; the long run is 2,000,000. target: graph_json,
# op, ...; all when none is given. What is found lies in build/fuzz/found; inputs that reach new code
# are kept in build/fuzz/corpus, where the next run goes on. The exit status is the number of targets
# that failed.
set -euo pipefail
cd "$(dirname "$0")/.."

runs=100000 targets=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    --runs) runs="$2"; shift 2 ;;
    -*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    *) targets+=("$1"); shift ;;
  esac
done
if [[ ${#targets[@]} -eq 0 ]]; then
  for source in tests/fuzz/*_fuzz.cc; do
    target=${source##*/}
    targets+=("${target%_fuzz.cc}")
  done
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
build() { cmake --preset fuzz && cmake --build --preset fuzz --target "${targets[@]/%/_fuzz}"; }
build > "$log" 2>&1 || { cat "$log" >&2; exit 1; }

failed=0
for target in "${targets[@]}"; do
  mkdir -p "build/fuzz/corpus/$target" build/fuzz/found
  options=(-runs="$runs" -seed=1 -max_len=4096 -timeout=25 -rss_limit_mb=2048 -print_final_stats=1
    -artifact_prefix="build/fuzz/found/$target-")
  dictionary="tests/fuzz/$target.dict"
  if [[ -e "$dictionary" ]]; then options+=(-dict="$dictionary"); fi
  started=$SECONDS
  if "build/fuzz/tests/fuzz/${target}_fuzz" "${options[@]}" "build/fuzz/corpus/$target" \
      "tests/fuzz/corpus/$target" > "$log" 2>&1; then
    count=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "$target: $count runs in $((SECONDS - started)) s, clean"
  else
    tail -n 60 "$log" >&2
    echo "$target: FAILED after $((SECONDS - started)) s"
    failed=$((failed + 1))
  fi
done
exit "$failed"
