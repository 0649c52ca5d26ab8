#!/bin/sh
# Checks rscert on a GPU in ten minutes: does certify run there, is its noise equal to the CPU's, can a killed run
# resume, and how does its speed compare with ONNX Runtime and PyTorch? See scripts/gpu_check.py --help and docs/gpu.md.
#
#	scripts/gpu_check.sh                                        # on a machine with a GPU: writes docs/gpu-results.md
#	scripts/gpu_check.sh --onnxruntime /tmp/gpu/ort             # with the CUDA build of ONNX Runtime in this folder
#	scripts/gpu_check.sh --device cpu --quick                   # a dry run: writes out/gpu-dry-run.md
#
# It needs bin/rscert ('make build'), and bin/onnx.test to measure ONNX Runtime alone. If Go is installed, it builds
# both. The networks need PyTorch in $PYTHON or python3. Without PyTorch only the bundled models run.

set -eu
cd "$(dirname "$0")/.."
if command -v go >/dev/null; then
	[ -x bin/rscert ] || make build
	go test -c -ldflags "-s -w" -o bin/onnx.test ./internal/onnx
fi
exec "${PYTHON:-python3}" scripts/gpu_check.py "$@"
