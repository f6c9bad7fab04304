#!/usr/bin/env bash
# Compiles all CUDA code for sm_80 and sm_90, warnings as errors, and fails where the assembler spills a register. Needs the CUDA toolkit
# and a build (the first argument, build/release unless given); needs no GPU. What it compiles: the kernels of plans of the model zoo
# and of a training step, as `millrace plan --dump-kernels` writes them, all in one file per model.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build/release}
if ! command -v nvcc > /dev/null; then
  echo "cuda_check: skipped: no nvcc"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# compile NAME GRAPH
compile() {
  local dump="$work/$1"
  "$build/millrace" plan "$2" --device cuda:0 --machine tools/machines/h100.json --dump-kernels "$dump" > /dev/null
  cat "$dump"/*.cu > "$dump/all.cuda"
  for arch in sm_80 sm_90; do
    nvcc -x cu -std=c++20 -cubin -arch="$arch" -Werror all-warnings -Xptxas -v -I "$dump" -o "$dump/$arch.cubin" "$dump/all.cuda" 2> "$dump/$arch.log" || {
      cat "$dump/$arch.log" >&2
      exit 1
    }
    if grep -E '[1-9][0-9]* bytes spill' "$dump/$arch.log"; then
      echo "cuda_check: $1 spills registers on $arch" >&2
      exit 1
    fi
  done
  echo "cuda_check: $1: $(ls "$dump"/*.cu | wc -l) kernels for sm_80 and sm_90, no warnings, no spills"
}

"$build/millrace" train tests/data/digits/untrained.json --data tests/data/digits/digits.csv.gz --loss softmax-cross-entropy --step-graph "$work/step.json" > /dev/null
compile training-step "$work/step.json"
for model in bert-base gpt2 densenet121 unet vit-b-16 dlrm; do
  "$build/millrace" model "$model" -o "$work/$model.json" > /dev/null
  compile "$model" "$work/$model.json"
done
