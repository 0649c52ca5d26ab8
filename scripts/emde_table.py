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
from datetime import date
from pathlib import Path

import numpy as np
import onnxruntime as ort
import torch
from torch.nn.functional import cross_entropy, softmax

from train_cifar import network

KINDS = ("standard", "adversarial")
SYMBOL = {"label": "y", "prediction": "ŷ"}
BINS = 15
EPSILON = 8 / 255
# Table 1 of Emde et al. for CIFAR-10 and 8/255: no attack, (−1, y), (+1, y), (−1, ŷ), (+1, ŷ).
PUBLISHED = {"standard": (3.06, 2.49, 18.79, 5.19, 11.87), "adversarial": (20.69, 21.84, 23.51, 11.92, 25.59)}


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


def rscert(args, kind, attack, examples, out):
    """The document of 'rscert attack --json' on the first test images."""
    command = [args.rscert, "attack", "--model", args.folder / f"{kind}.onnx", "--data", args.folder / "test.npz"]
    command += ["--norm", "linf", "--eps", EPSILON, "--attack", attack, "--seed", 1, "--max", examples]
    command += ["--select", "first", "--quiet", "--json", "--out", out / f"{kind}-{attack}"]
    print(kind, attack, file=sys.stderr)
    return json.loads(subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE).stdout)


def check_inputs(session, folder, name, x):
    """Stop if an input that rscert stored is too far away or has another class, by ONNX Runtime in Python."""
    with np.load(folder / f"{name}.npz") as arrays:
        altered = arrays["x"].reshape(x.shape)
    if np.abs(altered.astype(np.float64) - x).max() > EPSILON or altered.min() < 0 or altered.max() > 1:
        sys.exit(f"{folder}: {name} has an input that is not allowed")
    before, after = (session.run(None, {"image": rows})[0].argmax(1) for rows in (x, altered))
    if not np.array_equal(before, after):
        sys.exit(f"{folder}: {name} changed {np.sum(before != after)} classes")


def calibration(args, kind, x, y, out):
    """The rows of a network: ECE and AdaECE by rscert, AdaECE by the PyTorch attack and by its literal variant."""
    found = rscert(args, kind, "ace", len(x), out)["confidences"]
    model, session = load(args.folder, kind), ort.InferenceSession(args.folder / f"{kind}.onnx", providers=["CPUExecutionProvider"])
    torch_x, torch_y = torch.from_numpy(x), torch.from_numpy(y)
    logits = session.run(None, {"image": x})[0]
    confidence = softmax(torch.from_numpy(logits).double(), 1).max(1).values.numpy()
    clean = adaptive_ece(confidence, logits.argmax(1) == y)
    before = found["before"]
    rows = [("none", before["accuracy"], before["ece"], before["ada_ece"], clean, clean)]
    for after in found["after"]:
        check_inputs(session, out / f"{kind}-ace", after["name"], x)
        eta, omega = after["eta"], after["omega"]
        print(kind, eta, omega, "in PyTorch", file=sys.stderr)
        others = [torch_ace(model, torch_x, torch_y, eta, omega, EPSILON, stop) for stop in (False, True)]
        rows.append((f"({eta:+d}, {SYMBOL[omega]})".replace("-", "−"), after["accuracy"], after["ece"], after["ada_ece"], *others))
    return rows


def print_calibration(tables):
    """Table 1, both networks below each other."""
    print("<!-- made: ace -->\n")
    print("| network | setting | accuracy | ECE | AdaECE | AdaECE, PyTorch | AdaECE, stopping | AdaECE, Emde et al. |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for kind, rows in tables.items():
        for (setting, *figures), published in zip(rows, PUBLISHED[kind]):
            shown = " | ".join(f"{100 * v:.2f}" for v in figures)
            print(f"| {kind} | {setting} | {shown} | {published} |")
    print("\n<!-- end: ace -->")


def print_robustness(args, out):
    """Robust accuracies, with their intervals."""
    print("<!-- made: cifar-robust -->\n")
    print("| network | accuracy | `fgsm` | `pgd` | `square` |\n| --- | ---: | ---: | ---: | ---: |")
    for kind in KINDS:
        found = [rscert(args, kind, attack, args.attacked, out) for attack in ("fgsm", "pgd", "square")]
        shares = [found[0]["accuracy"], *(f["robust"] for f in found)]
        shown = " | ".join(f"{100 * s['share']:.1f} [{100 * s['low']:.1f}, {100 * s['high']:.1f}]" for s in shares)
        print(f"| {kind} | {shown} |")
    print("\n<!-- end: cifar-robust -->", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rscert", default="bin/rscert")
    parser.add_argument("--folder", type=Path, required=True, help="the folder that train_cifar.py wrote")
    parser.add_argument("--examples", type=int, default=1000, help="the number of images whose confidence is attacked")
    parser.add_argument("--attacked", type=int, default=500, help="the number of images for robust accuracy")
    args = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    with np.load(args.folder / "test.npz") as arrays:
        x, y = arrays["x"][: args.examples].astype(np.float32) / 255, arrays["y"][: args.examples]
    with tempfile.TemporaryDirectory() as scratch:
        print_robustness(args, Path(scratch))
        print_calibration({kind: calibration(args, kind, x, y, Path(scratch)) for kind in KINDS})
    print("<!-- made: cifar-where -->\n")
    print(f"`make emde-table`, {date.today():%-d %B %Y}, {platform.machine()}, {len(os.sched_getaffinity(0))} cores;")
    print(f"PyTorch {torch.__version__}, ONNX Runtime {ort.__version__}.")
    print("\n<!-- end: cifar-where -->")


if __name__ == "__main__":
    main()
