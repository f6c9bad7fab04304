#!/usr/bin/env bash
# Guards what compiling costs: instructions, counted by valgrind, so that the machine's load does not
# matter. A tower of 20,000 tiny ops may take 40,000 instructions a node, and at most 10^1.1 times
# what one of 2,000 takes. Exit code 77: skipped, no valgrind.
#
#   tests/compile_cost.sh build/release/bench/compile_cost
set -euo pipefail
program="$1"
command -v valgrind > /dev/null || { echo "valgrind is not installed"; exit 77; }

instructions() {
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "$1" 2>&1 > /dev/null |
    sed -n 's/.*Collected : *//p'
}

small=$(instructions 2000) large=$(instructions 20000)
echo "2,000 nodes: $small instructions, $((small / 2000)) a node"
echo "20,000 nodes: $large instructions, $((large / 20000)) a node"
awk -v small="$small" -v large="$large" 'BEGIN {
  exponent = log(large / small) / log(10)
  printf "exponent: %.3f, at most 1.1\n", exponent
  exit !(exponent <= 1.1 && large / 20000 <= 40000)
}'
