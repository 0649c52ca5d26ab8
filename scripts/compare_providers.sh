#!/bin/sh
# Measures the samples per second of every provider and precision, and of ONNX Runtime, OpenVINO and PyTorch, in one
# run. See scripts/compare_providers.py. The user's cache keeps the exported models and two Python environments (3 GB
# with PyTorch). There are two environments because ONNX Runtime and its OpenVINO build are the same Python package.

set -eu
cd "$(dirname "$0")/.."
folder=${COMPARE_FOLDER:-${XDG_CACHE_HOME:-$HOME/.cache}/rscert/compare-providers}
python=${PYTHON:-python3}
mkdir -p "$folder"
if [ ! -e "$folder/ok" ]; then
	"$python" -I -m venv "$folder/torch"
	"$folder/torch/bin/pip" install --quiet --disable-pip-version-check -r scripts/requirements-providers.txt
	"$python" -I -m venv "$folder/openvino"
	"$folder/openvino/bin/pip" install --quiet --disable-pip-version-check numpy==2.4.6 onnxruntime-openvino==1.24.1
	touch "$folder/ok"
fi
"$folder/torch/bin/python" scripts/export_models.py "$folder/models" 2>/dev/null
cp testdata/mnist-cnn.onnx "$folder/models/"
go test -c -o "$folder/onnx.test" ./internal/onnx
exec "$folder/torch/bin/python" scripts/compare_providers.py --folder "$folder" "$@"
