#!/usr/bin/env python3
"""Make internal/onnx/testdata/diffusion.onnx, and print the scores that TestDenoisePython in internal/onnx expects.

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install numpy==2.4.6 onnx==1.23.2 onnxruntime==1.29.0 onnxscript==0.7.2 torch==2.15.0
    /tmp/torch/bin/python scripts/denoiser_golden.py

The diffusion model is untrained, but has the form of a real one. It takes images in [-1, 1] and one timestep per
sample, which it embeds as sines and cosines. It returns noise and variance. NumPy computes the scores as Carlini et al.
2023 do. Each model has its own session of ONNX Runtime.
"""

import math
from pathlib import Path

import numpy as np
import onnxruntime as ort
import torch
from torch import nn

ROOT = Path(__file__).resolve().parent.parent
DIFFUSION = ROOT / "internal" / "onnx" / "testdata" / "diffusion.onnx"


class Diffusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 8)
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.last = nn.Conv2d(8, 2, 3, padding=1)

    def forward(self, image, timestep):
        angles = timestep.float()[:, None] * torch.exp(-math.log(1000.0) * torch.arange(4) / 4)
        embedded = self.embed(torch.cat([angles.sin(), angles.cos()], 1))
        return self.last(nn.functional.silu(self.first(image) + embedded[:, :, None, None]))


def session(path):
    return ort.InferenceSession(path, providers=["CPUExecutionProvider"])


def main():
    torch.manual_seed(2)
    model = Diffusion().eval()
    example = (torch.zeros(2, 1, 28, 28), torch.zeros(2, dtype=torch.int64))
    torch.onnx.export(model, example, DIFFUSION, input_names=["image", "timestep"], output_names=["noise"], external_data=False,
                      dynamic_shapes=({0: "batch"}, {0: "batch"}))  # fmt: skip
    classifier = session(ROOT / "testdata" / "mnist-cnn.onnx")
    i = np.arange(784)
    x = (((i * 37) % 255) / 255 + 0.5 * np.sin(i)).astype(np.float32).reshape(1, 1, 28, 28)  # data and "noise" of sigma 0.5
    mean, std = np.float32(0.1307), np.float32(0.3081)

    def scores(clean):
        return ", ".join(f"{v:.5f}" for v in classifier.run(None, {"image": ((clean - mean) / std).astype(np.float32)})[0][0])

    print("image", scores(session(ROOT / "testdata" / "mnist-denoiser.onnx").run(None, {"noisy": x})[0]))
    alphas = np.cumprod(1 - np.linspace(1e-4, 0.02, 1000))
    t = int(np.abs(np.sqrt((1 - alphas) / alphas) - 2 * 0.5).argmin())
    x_t = np.float32(np.sqrt(alphas[t])) * (2 * x - 1)
    out = session(DIFFUSION).run(None, {"image": x_t, "timestep": np.array([t])})[0][:, :1]
    for kind, x0 in (("epsilon", (x_t - np.sqrt(1 - alphas[t]) * out) / np.sqrt(alphas[t])), ("x0", out)):
        print(kind, t, repr(float(alphas[t])), scores((np.clip(x0, -1, 1) + 1) / 2))


if __name__ == "__main__":
    main()
