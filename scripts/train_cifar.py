#!/usr/bin/env python3
"""Train small CNNs on CIFAR-10, plainly, adversarially or with noise, and export them; see 'make cifar-models'.

    python scripts/train_cifar.py --data ../shared/data/cifar10-jpeg --out FOLDER --kind standard
    python scripts/train_cifar.py --data ../shared/data/cifar10-jpeg --out FOLDER --kind adversarial
    python scripts/train_cifar.py --data ../shared/data/cifar10-jpeg --out FOLDER --kind noise-0.25
    python scripts/train_cifar.py --data ../shared/data/cifar10-jpeg --out FOLDER --kind noise-0.5

The data are JPEG copies of the images of CIFAR-10, in Parquet. The script writes KIND.onnx and test.npz (the 10,000
test images) into FOLDER. It also stores its progress there, so that an interrupted training can continue. All networks
have the same layers, start from the same weights and see the same images in the same order. No test image is used in
training or for any choice.

The adversarial network sees only perturbed images, made by one step of FGSM from a random start (Wong, Rice & Kolter,
ICLR 2020), with norm linf. The budget grows over the first epochs, as in Emde et al. (2025), B.2.

The networks noise-0.25 and noise-0.5 see only images with fresh Gaussian noise of this standard deviation, in pixels of
[0, 1] (Cohen et al., ICML 2019). They are for certificates and prediction sets under noise of this sigma.

Training runs in one thread, so that sums have the same order in each run. On one core of an EPYC, an epoch takes 90
seconds, an adversarial epoch 150. The printed accuracies are measured with the exported file and ONNX Runtime. For a
network trained with noise, the second accuracy is measured with one noisy copy of each test image.
"""

import argparse
import io
import os
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pyarrow.parquet as parquet
import torch
from PIL import Image
from torch import nn
from torch.nn.functional import cross_entropy, pad

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # mean and standard deviation of the training pixels
# The learning rate, as a share of --rate, is interpolated linearly. The first tuple has the epochs, the second the
# values.
RATES = {
    "standard": ((0, 2, 10), (0, 1, 0)), "adversarial": ((0, 2, 4, 5), (0, 1, 0.6, 0)),
    "noise-0.25": ((0, 2, 10), (0, 1, 0)), "noise-0.5": ((0, 2, 10), (0, 1, 0)),
}  # fmt: skip
SHIFT = 2  # the largest random shift of a training image, in pixels


def images(folder, part):
    """Returns the part's images as uint8 of shape (N, 3, 32, 32), and its labels."""
    table = parquet.read_table(folder / f"{part}.parquet")
    files = table["image"].combine_chunks().field("bytes")
    pixels = np.stack([np.asarray(Image.open(io.BytesIO(file.as_py())).convert("RGB")) for file in files])
    return pixels.transpose(0, 3, 1, 2).copy(), table["label"].to_numpy()


def cached(folder, out, part):
    """Decodes the JPEG files of a part, but only once."""
    path = out / f"{part}.npz"
    if not path.exists():
        x, y = images(folder, part)
        temporary = out / f"{part}-{os.getpid()}.npz"
        np.savez(temporary, x=x, y=y)
        temporary.replace(path)
    with np.load(path) as arrays:
        return arrays["x"], arrays["y"]


class Standardise(nn.Module):
    """Standardises raw pixels in [0, 1], so that the network takes such pixels."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor(MEAN)[:, None, None])
        self.register_buffer("std", torch.tensor(STD)[:, None, None])

    def forward(self, x):
        return (x - self.mean) / self.std


def convolution(inputs, outputs, size=3, stride=1):
    return [nn.Conv2d(inputs, outputs, size, stride, padding=1, bias=False), nn.BatchNorm2d(outputs)]


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.branch = nn.Sequential(*convolution(channels, channels), nn.ReLU(), *convolution(channels, channels))

    def forward(self, x):
        return torch.relu(x + self.branch(x))


def network():
    """Returns the network, with 7 M multiply-accumulates and 210 k weights."""
    return nn.Sequential(
        Standardise(),
        *convolution(3, 32, 4, 2), nn.ReLU(),
        *convolution(32, 48, 3, 2), nn.ReLU(), Residual(48),
        *convolution(48, 80, 3, 2), nn.ReLU(), Residual(80),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(80, 10),
    )  # fmt: skip


def shifted(x, generator=None):
    """Mirrors each image with probability 1/2 and shifts it by up to SHIFT pixels. The border becomes black."""
    n, side = len(x), x.shape[-1]
    x = torch.where((torch.rand(n, generator=generator) < 0.5)[:, None, None, None], x.flip(3), x)
    x = pad(x, [SHIFT] * 4)
    row, column = torch.randint(0, 2 * SHIFT + 1, (2, n, 1), generator=generator) + torch.arange(side)
    example = torch.arange(n)[:, None, None]
    return x.permute(0, 2, 3, 1)[example, row[:, :, None], column[:, None]].permute(0, 3, 1, 2).contiguous()


def deviation(kind):
    """Returns the standard deviation of the noise with which a kind of network is trained, or 0."""
    return float(kind.removeprefix("noise-")) if kind.startswith("noise-") else 0.0


def perturbed(model, x, y, epsilon):
    """Takes one step of length 1.25 epsilon along the gradient's sign, from a uniform random start within epsilon."""
    delta = torch.empty_like(x).uniform_(-epsilon, epsilon).requires_grad_()
    (gradient,) = torch.autograd.grad(cross_entropy(model(x + delta), y), delta)
    delta = (delta.detach() + 1.25 * epsilon * gradient.sign()).clamp(-epsilon, epsilon)
    return (x + delta).clamp(0, 1)


def train_epoch(model, optimiser, x, y, epoch, args):
    torch.manual_seed(1000 * args.seed + epoch)
    batches = torch.randperm(len(x)).split(128)
    total, correct, started, sigma = 0.0, 0, time.time(), deviation(args.kind)
    for i, rows in enumerate(batches):
        epochs = epoch + (i + 1) / len(batches)
        for group in optimiser.param_groups:
            group["lr"] = args.rate * float(np.interp(epochs, *RATES[args.kind]))
        inputs, labels = shifted(x[rows].float() / 255), y[rows]
        if args.kind == "adversarial":
            inputs = perturbed(model, inputs, labels, args.eps * min(1, epochs / 2.5))
        if sigma:
            inputs = inputs + sigma * torch.randn_like(inputs)
        logits = model(inputs)
        loss = cross_entropy(logits, labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        total += loss.item() * len(rows)
        correct += (logits.argmax(1) == labels).sum().item()
    seconds = time.time() - started
    print(f"{args.kind}: epoch {epoch + 1}, loss {total / len(x):.4f}, accuracy {correct / len(x):.4f}, {seconds:.0f} s", flush=True)


def train(model, x, y, args):
    """Runs the epochs that are left, and returns their number."""
    optimiser = torch.optim.SGD(model.parameters(), args.rate, momentum=0.9, nesterov=True, weight_decay=5e-4)
    checkpoint, first = args.out / f"{args.kind}.checkpoint", 0
    if checkpoint.exists():
        state = torch.load(checkpoint)
        if state["settings"] != settings(args):
            raise SystemExit(f"{checkpoint} has other settings: {state['settings']}; remove it, or choose another --out")
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        first = state["epochs"]
    last = RATES[args.kind][0][-1]
    for epoch in range(first, last):
        train_epoch(model, optimiser, x, y, epoch, args)
        state = {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "epochs": epoch + 1, "settings": settings(args)}
        torch.save(state, checkpoint.with_suffix(".new"))
        checkpoint.with_suffix(".new").replace(checkpoint)
    return last - first


def settings(args):
    return {name: getattr(args, name) for name in ("kind", "rate", "eps", "seed")}


def export(model, path):
    """Write the model in one file."""
    example = torch.zeros(2, 3, 32, 32)
    torch.onnx.export(
        model.eval(), (example,), path, input_names=["image"], output_names=["logits"], dynamic_shapes=({0: "batch"},), external_data=False
    )  # fmt: skip


def measure(path, kind, x, y):
    """Prints the accuracy of the exported file, and the accuracy under noise if the network was trained with noise."""
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(1)
    for sigma in sorted({0.0, deviation(kind)}):
        found = []
        for rows in np.array_split(x, 20):
            noise = np.float32(sigma) * random.standard_normal(rows.shape, np.float32)
            found.append(session.run(None, {"image": rows.astype(np.float32) / 255 + noise})[0].argmax(1))
        where = f" with noise of sigma {sigma:g}" if sigma else ""
        print(f"{kind}: accuracy on {len(y)} test images{where} {np.mean(np.concatenate(found) == y):.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder with train.parquet and test.parquet")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the model, test.npz and the progress")
    parser.add_argument("--kind", choices=RATES, required=True)
    parser.add_argument("--rate", type=float, default=0.2, help="the largest learning rate")
    parser.add_argument("--eps", type=float, default=6 / 255, help="the budget of adversarial training, in pixels of [0, 1]")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    x, y = cached(args.data, args.out, "train")
    test_x, test_y = cached(args.data, args.out, "test")
    torch.manual_seed(args.seed)
    model = network()
    path = args.out / f"{args.kind}.onnx"
    if train(model, torch.from_numpy(x), torch.from_numpy(y), args) or not path.exists():
        export(model, path)
    measure(path, args.kind, test_x, test_y)


if __name__ == "__main__":
    main()
