#!/usr/bin/env bash
# The demo: sets up, builds `millrace`, and classifies 1,797 handwritten digits with a real model.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { cmake --preset release && cmake --build --preset release --target millrace; } > "$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi

millrace() {
  echo
  echo "\$ millrace $*"
  echo
  build/release/millrace "$@"
}

model=tests/data/digits/digits.json
data=tests/data/digits/digits.csv.gz

millrace inspect $model
millrace plan $model
# Rows with index % 5 == 4 were held out when the model was trained.
millrace run $model --input image=@$data:0-63 --labels probabilities=@$data:64 --held-out 5:4 \
  --warmup 3 --iterations 20 --profile
