#!/usr/bin/env bash
# The demo: sets up, builds `millrace`, trains a model on handwritten digits in some seconds,
# classifies with it those it has not seen, trains again in little memory and over several devices,
# shows what rewriting is worth on ResNet-50, and plans a model for a cluster.
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

data=tests/data/digits/digits.csv.gz
trained=build/demo/digits.json
mkdir -p build/demo

# A graph without weights. Every fifth of the 1,797 images is held out: those with index % 5 == 4.
millrace train tests/data/digits/untrained.json --data $data --eval 0.2 \
  --loss softmax-cross-entropy --optimizer adamw --weight-decay 0.05 --lr 3e-3 --lr-schedule cosine \
  --epochs 20 --save $trained
millrace inspect $trained
millrace plan $trained
millrace run $trained --input image=@$data:0-63 --labels probabilities=@$data:64 --held-out 5:4 \
  --warmup 3 --iterations 20 --profile

# Training in less memory than a step takes: the plan that makes it fit, and what that costs.
step=build/demo/step.json
train=(tests/data/digits/untrained.json --data $data --loss softmax-cross-entropy --batch 256)
millrace train "${train[@]}" --step-graph $step
millrace plan $step --sweep-budget
millrace explain $step --memory-budget 11MiB
millrace train "${train[@]}" --memory-budget 11MiB

# The same on a mesh of 2 x 2 devices, in four processes: the weights do not depend on how many.
for processes in 1 4; do
  millrace train tests/data/digits/untrained.json --data $data --eval 0.2 --loss softmax-cross-entropy --epochs 5 \
    --mesh data=2,tensor=2 --spawn $processes --save build/demo/mesh$processes.json
done
cmp build/demo/mesh1.safetensors build/demo/mesh4.safetensors && echo "the same weights, bit for bit"

# What rewriting is worth on a well-known model: as it comes, and as it is planned by default.
resnet=build/demo/resnet50.json
millrace model resnet50 -o $resnet
millrace plan $resnet -O0
millrace run $resnet -O0 --input '*=rand:1' --warmup 1 --iterations 5
millrace plan $resnet
millrace run $resnet --input '*=rand:1' --warmup 1 --iterations 5
millrace explain $resnet layer1/0/3/conv/conv

# A model of 175 billion parameters on 1,024 GPUs that are not here: what to cut where, and how fast it would be.
gpt=build/demo/gpt175b.json
millrace model gpt --set parameters=175b --set batch=1536 --set tokens=2048 -o $gpt
millrace plan $gpt --machine dgx-a100-pod --devices 1024 --mesh auto --precision bf16
