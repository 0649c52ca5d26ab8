#!/usr/bin/env python3
"""Attack the calibration of the two CIFAR-10 networks of train_cifar.py; run by 'make emde-table'.

Prints the tables of docs/attacks.md, marked for studies/page: AdaECE and ECE before and after 'rscert attack --attack
ace' in its four settings, as in table 1 of Emde et al. (2025), and the robust accuracies under pgd, fgsm and square.

The column PyTorch is an independent implementation of ACE, on the same networks and images. It differs from rscert's
in the arithmetic, so that the paths of the two attacks part after some steps. The last column is Emde et al.'s literal
rule: the attack on an image stops at the first step that changes the class. rscert halves the step instead.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import cross_entropy, softmax

from train_cifar import network

KINDS = ("standard", "adversarial")
SETTINGS = ((-1, "label"), (1, "label"), (-1, "prediction"), (1, "prediction"))
SYMBOL = {"label": "y", "prediction": "ŷ"}
BINS = 15


def adaptive_ece(confidence, correct):
    """The expected calibration error with BINS bins of equal count."""
    order = np.argsort(confidence, kind="stable")
    ends = np.ceil(np.arange(BINS + 1) * len(order) / BINS).astype(int)
    parts = [order[i:j] for i, j in zip(ends, ends[1:])]
    return sum(abs(correct[part].sum() - confidence[part].sum()) for part in parts) / len(order)


class Ace:
    """η·CE(f(x + γ), ω) → max with ‖γ‖∞ ≤ epsilon, 0 ≤ x + γ ≤ 1 and the class of x, for a batch.

    A step is the learning rate times the gradient. The rate of each image falls as PyTorch's ReduceLROnPlateau lets it:
    by 10 after more than 10 steps without an improvement by the factor 1.0001.
    """

    def __init__(self, model, x, y, eta, omega, epsilon, stop):
        self.model, self.x, self.eta, self.epsilon, self.stop = model, x, eta, epsilon, stop
        with torch.no_grad():
            self.clean = model(x).argmax(1)
        self.target = y if omega == "label" else self.clean
        self.rate = torch.full((len(x),), 10.0)
        self.best, self.value = x.clone(), torch.full((len(x),), -torch.inf)
        self.plateau, self.waiting = self.value.clone(), torch.zeros(len(x), dtype=torch.long)

    def gradient(self, point, rows):
        """The value η·CE of each point, its gradient, and whether it has the class of x."""
        point = point.clone().requires_grad_()
        logits = self.model(point)
        value = self.eta * cross_entropy(logits, self.target[rows], reduction="none")
        (gradient,) = torch.autograd.grad(value.sum(), point)
        return value.detach(), gradient, logits.argmax(1) == self.clean[rows]

    def follow(self, rows, value):
        """Lower the rates on a plateau."""
        better = value > self.plateau[rows] + 1e-4 * self.plateau[rows].abs()
        better |= self.plateau[rows].isinf()
        self.plateau[rows] = torch.where(better, value, self.plateau[rows])
        self.waiting[rows] = torch.where(better, 0, self.waiting[rows] + 1)
        late = rows[self.waiting[rows] > 10]
        self.rate[late] *= 0.1
        self.waiting[late] = 0

    def run(self, steps=100):
        rows = torch.arange(len(self.x))
        point, kept, slope = self.x.clone(), self.x.clone(), torch.zeros_like(self.x)
        for step in range(steps + 1):
            value, gradient, same = self.gradient(point[rows], rows)
            if self.stop:
                rows, value, gradient, same = rows[same], value[same], gradient[same], same[same]
            self.rate[rows[~same]] *= 0.5
            good = rows[same]
            kept[good], slope[good] = point[good], gradient[same]
            improved = value[same] > self.value[good]
            self.best[good[improved]], self.value[good[improved]] = point[good[improved]], value[same][improved]
            self.follow(good, value[same])
            if step == steps or len(rows) == 0:
                break
            x = self.x[rows]
            new = kept[rows] + self.rate[rows, None, None, None] * slope[rows]
            new = x + (new - x).clamp(-self.epsilon, self.epsilon)
            point[rows] = new.clamp(0, 1)
            rows = rows[(point[rows] != kept[rows]).flatten(1).any(1)]
        return self.best


def torch_ace(model, x, y, eta, omega, epsilon, stop):
    """AdaECE after the attack."""
    confidence, right = [], []
    for i in range(0, len(x), 100):
        images, labels = x[i : i + 100], y[i : i + 100]
        altered = Ace(model, images, labels, eta, omega, epsilon, stop).run()
        with torch.no_grad():
            before, after = model(images).argmax(1), softmax(model(altered).double(), 1).max(1)
        if not torch.equal(before, after.indices):
            sys.exit("the PyTorch attack changed a class")
        confidence.append(after.values.numpy())
        right.append((before == labels).numpy())
    return adaptive_ece(np.concatenate(confidence), np.concatenate(right))


def load(folder, kind):
    """The trained network, in PyTorch."""
    model = network()
    model.load_state_dict(torch.load(folder / f"{kind}.checkpoint")["model"])
    return model.eval().requires_grad_(False)


def rscert(args, kind, attack, examples, *more):
    """The document of 'rscert attack --json' on the first examples."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [args.rscert, "attack", "--model", args.folder / f"{kind}.onnx", "--data", args.folder / "test.npz"]
        command += ["--norm", "linf", "--eps", repr(args.eps), "--attack", attack, "--seed", "1", "--max", examples]
        command += ["--select", "first", "--quiet", "--json", "--out", Path(scratch) / "attack", *more]
        print(*command[:2], kind, attack, file=sys.stderr)
        return json.loads(subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE).stdout)
