#!/usr/bin/env python3
"""Train with and without the loss PerturbationAware, and perturb the scores: a table of docs/training.md.

    python scripts/measure_perturbed.py --data FOLDER --rscert bin/rscert --out out/perturbed

The task is one of Ciosek et al. (2025), appendix G: means of transport against animals, on images of CIFAR-10, with
2,500 training images. A small network on 8×8 pixels learns the task for 150 epochs, so that most scores are near 0
or 1. The script writes the scores of the first 4,000 test images, and 'rscert perturb --auroc' measures what the
perturbation costs. If the script was interrupted, the next call continues its work. No setting was chosen by the test
images.
"""

import argparse
import json
import subprocess
from pathlib import Path

import numpy as np
import torch
from rscert.train import PerturbationAware
from torch import nn
from torch.nn.functional import cross_entropy

from train_cifar import cached, shifted

TRANSPORT = (0, 1, 8, 9)  # airplane, automobile, ship, truck
TRAINING, TEST, BATCH, RATE = 2500, 4000, 125, 0.05
BANDWIDTH, REPEATS = 2**-6, 10
LOSSES = {
    "cross-entropy": lambda model, batch: cross_entropy(model(batch[0]), batch[1]),
    "PerturbationAware": PerturbationAware(BANDWIDTH),
    "PerturbationAware, pair_weight=0": PerturbationAware(BANDWIDTH, pair_weight=0.0),
}


class Centred(nn.Module):
    """Maps pixels in [0, 1] to [−2, 2]."""

    def forward(self, x):
        return 4 * x - 2


def network():
    return nn.Sequential(
        Centred(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(192, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2)
    )


def task(folder, out, part, size):
    """Returns the first images of a part as bytes, and 1 for a means of transport or 0 for an animal."""
    x, y = cached(folder, out, part)
    return torch.from_numpy(x[:size]), torch.from_numpy(np.isin(y[:size], TRANSPORT).astype(np.int64))


def train(loss, x, y, seed, epochs):
    torch.manual_seed(seed)
    model = network()
    optimiser = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    steps, step = epochs * (len(x) // BATCH), 0
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(BATCH):
            for group in optimiser.param_groups:
                group["lr"] = RATE * min(1, step / 60) * (1 - step / steps)
            value = loss(model, (shifted(x[rows].float() / 255), y[rows]))
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            step += 1
    return model


def write_scores(model, x, y, path):
    with torch.no_grad():
        scores = torch.softmax(model(x.float() / 255).double(), 1)[:, 1]
    path.write_text("score,label\n" + "".join(f"{s!r},{int(v)}\n" for s, v in zip(scores.tolist(), y)))


def measure(args, path):
    """Returns the area under the ROC curve before and after the perturbation."""
    command = [args.rscert, "perturb", path, "--auroc", str(BANDWIDTH), "--repeats", str(REPEATS), "--json", "--quiet"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return found["before"], found["bandwidths"][0]["after"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with train.parquet and test.parquet")
    parser.add_argument("--rscert", default="rscert")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)  # so that sums have the same order in each run
    args.out.mkdir(parents=True, exist_ok=True)
    x, y = task(args.data, args.out, "train", TRAINING)
    test = task(args.data, args.out, "test", TEST)
    print("| loss | AUROC of each seed | after the perturbation | change |")
    print("| --- | --- | --- | --- |")
    for name, loss in LOSSES.items():
        found = []
        for seed in range(1, args.seeds + 1):
            path = args.out / f"{name.replace(', ', '-')}-{seed}.csv"
            if not path.exists():
                write_scores(train(loss, x, y, seed, args.epochs), *test, path)
            found.append(measure(args, path))
        before, after = np.array(found).T
        cells = [", ".join(f"{v:.4f}" for v in values) for values in (before, after, after - before)]
        print(f"| `{name}` | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
