#!/usr/bin/env bash
# Makes the virtual environment in which bench/peers/compare.py finds ONNX Runtime and OpenVINO, and
# bench/peers/train.py JAX, at the versions the published tables were measured with.
#
#   bench/peers/setup.sh [FOLDER]     # build/peers when not given
#
# Needs python3 with venv, and PyPI (about 330 MB). What is there already is not fetched again.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder="${1:-build/peers}"
packages=(numpy==2.4.6 onnxruntime==1.32.0 openvino==2026.0.0 onnx==1.23.2 jax==0.10.2 jaxlib==0.10.2)

mkdir -p "$folder"
if [[ ! -x "$folder/venv/bin/python" ]]; then
  python3 -m venv "$folder/venv"
fi
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: \
  "${packages[@]}"
