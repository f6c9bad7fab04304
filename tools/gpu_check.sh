#!/usr/bin/env bash
# On a machine with a GPU, in a few minutes (build it with the preset `portable`, and give build/portable): every kernel against the reference, the plans of models against the CPU, and what they take.
# The argument is a build folder (build/release unless given) made for this kind of machine. Each part says what it did, or why it was skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build/release}
millrace="$build/millrace"
if ! "$millrace" devices | grep -q '^cuda:'; then
  echo "gpu_check: skipped: $("$millrace" devices | grep 'no cuda devices')"
  exit 0
fi
"$millrace" devices
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export MILLRACE_CACHE="$work/cache"

echo "== every kernel against the reference"
"$build/tests/cuda_test" --gtest_filter='GpuOps.*:LoadCudaDriver.*'

# A machine file with this GPU's memory; its rates are those of the file, so predictions are for it.
machine=tools/machines/h100.json
for model in lenet resnet50 bert-base gpt2 dlrm; do
  echo "== $model"
  "$millrace" model "$model" -o "$work/$model.json" > /dev/null
  "$millrace" plan "$work/$model.json" --device cuda:0 --machine "$machine" -o "$work/$model.plan.json" > /dev/null
  "$millrace" run "$work/$model.plan.json" --machine "$machine" --input '*=rand:1' --iterations 50 --profile | tail -25
done
