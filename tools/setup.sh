#!/usr/bin/env bash
# Installs what building and testing Millrace need. Idempotent; when nothing is missing it ends at
# once, without root and without the network. On a system other than Debian 12 it installs nothing,
# names what is missing, and fails when something required is.
set -euo pipefail

# One a line: Debian package | how to see that it is there (command, <header>, path, python module)
# | why.
# A "?" before the package: useful, not required.
packages=$(cat << 'END'
  g++                | g++                                  | the compiler, C++20
  cmake              | cmake                                | build, 3.25 or later
  ninja-build        | ninja                                | build
  pkg-config         | pkg-config                           | finds libraries without a CMake package
  git                | git                                  | the repository
  libabsl-dev        | <absl/status/statusor.h>             | Abseil: status, strings, containers
  nlohmann-json3-dev | <nlohmann/json.hpp>                  | JSON
  libcli11-dev       | <CLI/CLI.hpp>                        | the command line of millrace
  libssl-dev         | <openssl/evp.h>                      | SHA-256
  zlib1g-dev         | <zlib.h>                             | gzip
  libhwy-dev         | <hwy/highway.h>                      | Highway: SIMD kernels
  libdnnl-dev        | <dnnl.hpp>                           | oneDNN: convolution, matmul, pooling on CPU
  libprotobuf-dev    | <google/protobuf/message.h>          | ONNX files
  libonnx-dev        | <onnx/onnx_pb.h>                     | ONNX files: their schema, compiled
  ocl-icd-opencl-dev | <CL/cl.h>                            | oneDNN's CMake package looks for it
  libgtest-dev       | <gtest/gtest.h>                      | tests
  libgmock-dev       | <gmock/gmock.h>                      | tests: matchers
  libbenchmark-dev   | <benchmark/benchmark.h>              | benchmarks
  ? libonnx-testdata | /usr/share/libonnx-testdata/data     | tests: ONNX's conformance suite
  ? python3-jsonschema | python:jsonschema                  | a test: the graph file schema
  ? openmpi-bin      | mpirun                               | a test: jobs that mpirun starts
  ? libopenmpi-dev   | <mpi/mpi.h>                          | bench/transport: MPI as a contestant
  ? valgrind         | valgrind                             | a test: instructions that compiling takes
  ? ccache           | ccache                               | quick rebuilds
  ? mold             | mold                                 | quick links
  ? clang            | clang++                              | fuzz targets (tools/fuzz.sh)
  ? clang-format     | clang-format                         | formatting, for contributors
END
)

on_debian_12() {
  [[ -r /etc/os-release ]] && command -v dpkg-query apt-get > /dev/null &&
    (. /etc/os-release && [[ "$ID" == debian && "${VERSION_ID:-}" == 12 ]])
}

is_installed() {  # by dpkg
  [[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2> /dev/null)" == installed ]]
}

is_there() {  # by looking for the thing itself
  case "$1" in
    /*) [[ -e "$1" ]] ;;
    python:*) python3 -c "import ${1#python:}" 2> /dev/null ;;
    '<'*) echo "#include $1" | "${CXX:-c++}" -x c++ -std=c++20 -fsyntax-only - 2> /dev/null ;;
    *) command -v "$1" > /dev/null ;;
  esac
}

as_root() {
  if [[ $EUID -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

debian=false
if on_debian_12; then debian=true; fi
missing=() failed=false
while IFS='|' read -r package probe why; do
  read -r package <<< "$package"
  read -r probe <<< "$probe"
  read -r why <<< "$why"
  required=true
  if [[ "$package" == '? '* ]]; then required=false package="${package#? }"; fi
  if $debian; then
    is_installed "$package" || missing+=("$package")
  elif ! is_there "$probe"; then
    if $required; then failed=true kind=missing; else kind='missing, not required'; fi
    echo "setup: $kind: $probe ($why; Debian: $package)" >&2
  fi
done < <(grep '|' <<< "$packages")

if $failed; then
  echo "setup: only Debian 12 is set up automatically; install what is missing and run this again" >&2
  exit 1
fi
if [[ ${#missing[@]} -gt 0 ]]; then
  if [[ $EUID -ne 0 ]] && ! command -v sudo > /dev/null; then
    echo "setup: not root and no sudo; as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  echo "setup: installing ${missing[*]}" >&2
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
fi
