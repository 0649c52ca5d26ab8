#!/usr/bin/env python3
"""Attack the calibration of the two CIFAR-10 networks of train_cifar.py; run by 'make emde-table'.

Prints tables of docs/attacks.md, with marks for studies/page. One table has robust accuracies under fgsm, pgd and
square. Another has ECE and AdaECE before and after 'rscert attack --attack ace' in its four settings, as in table 1 of
Emde et al. (2025).

Another table compares the attack with an independent implementation in PyTorch, on the same networks and images. The
two attacks differ only by the rounding of sums. The last column follows the paper to the letter. There the attack on an
image stops at the first step that changes the class, while rscert halves this step and continues.
"""

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
from datetime import date
from pathlib import Path

import numpy as np
import onnxruntime as ort
import torch
from torch.nn.functional import cross_entropy, softmax

from train_cifar import network

KINDS = ("standard", "adversarial")
SETTINGS = ((-1, "label"), (1, "label"), (-1, "prediction"), (1, "prediction"))
SYMBOL = {"label": "y", "prediction": "ŷ"}
BINS = 15
EPSILON = 8 / 255
# AdaECE in table 1 of Emde et al. for CIFAR-10 and 8/255: first without attack, then in the order of SETTINGS.
PUBLISHED = {"standard": (3.06, 2.49, 18.79, 5.19, 11.87), "adversarial": (20.69, 21.84, 23.51, 11.92, 25.59)}


def adaptive_ece(confidence, correct):
    """Returns the expected calibration error with BINS bins of equal count. Equal confidences share a bin."""
    order = np.argsort(confidence, kind="stable")
    ranks = np.ceil(np.arange(1, BINS + 1) * len(order) / BINS).astype(int)
    ends = np.searchsorted(confidence[order], confidence[order[ranks - 1]], side="right")
    parts = np.split(order, ends[:-1])
    return sum(abs(correct[part].sum() - confidence[part].sum()) for part in parts) / len(order)


class Ace:
    """Maximises η·CE(f(x + γ), ω) for a batch, subject to ‖γ‖∞ ≤ epsilon and 0 ≤ x + γ ≤ 1. Here CE is the
    cross-entropy for the class ω, which is the label or the prediction, and η is 1 or −1. All points of the attack have
    the class of x.

    A step is the learning rate times the gradient. As in PyTorch's ReduceLROnPlateau, the rate of an image falls to a
    tenth after more than 10 steps without an improvement by the factor 1.0001.
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
        """Returns the value η·CE at each point, its gradient, and whether the point has the class of x."""
        point = point.clone().requires_grad_()
        logits = self.model(point)
        value = self.eta * cross_entropy(logits, self.target[rows], reduction="none")
        (gradient,) = torch.autograd.grad(value.sum(), point)
        return value.detach(), gradient, logits.argmax(1) == self.clean[rows]

    def follow(self, rows, value):
        """Lowers the rates of images on a plateau."""
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
    """Returns the confidences after the attack in PyTorch."""
    confidence = []
    for images, labels in zip(x.split(100), y.split(100)):
        altered = Ace(model, images, labels, eta, omega, epsilon, stop).run()
        with torch.no_grad():
            before, after = model(images).argmax(1), softmax(model(altered).double(), 1).max(1)
        if not torch.equal(before, after.indices):
            sys.exit("the PyTorch attack changed a class")
        confidence.append(after.values.numpy())
    return np.concatenate(confidence)


def torch_confidences(args, kind, x, y):
    """Returns the confidences under each setting of two PyTorch attacks: the attack that halves steps and the attack
    that stops. Keeps the confidences in a file."""
    checkpoint = args.folder / f"{kind}.checkpoint"
    digest = hashlib.sha256(checkpoint.read_bytes()).hexdigest()
    path = args.out / f"{kind}-torch-{len(x)}-{digest[:12]}.npy"
    if not path.exists():
        print(kind, "ace in PyTorch", file=sys.stderr)
        model = load(checkpoint)
        np.save(path, [[torch_ace(model, x, y, *setting, EPSILON, stop) for stop in (False, True)] for setting in SETTINGS])
    return np.load(path)


def load(checkpoint):
    """Returns the trained network, in PyTorch."""
    model = network()
    model.load_state_dict(torch.load(checkpoint)["model"])
    return model.eval().requires_grad_(False)


def rscert(args, kind, attack, examples):
    """Returns the document of 'rscert attack --json' on the first test images. Resumes an interrupted attack."""
    command = [args.rscert, "attack", "--model", args.folder / f"{kind}.onnx", "--data", args.folder / "test.npz"]
    command += ["--norm", "linf", "--eps", EPSILON, "--attack", attack, "--seed", 1, "--max", examples]
    command += ["--select", "first", "--quiet", "--json", "--resume", "--out", args.out / f"{kind}-{attack}"]
    if attack == "ace" and args.plots:
        command += ["--plot", args.plots / f"ace-{kind}.svg"]
    print(kind, attack, file=sys.stderr)
    return json.loads(subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE).stdout)


def check_inputs(session, folder, name, x):
    """Stops the script if an input that rscert stored is too far from its example, or if ONNX Runtime in Python gives
    it another class."""
    with np.load(folder / f"{name}.npz") as arrays:
        altered = arrays["x"].reshape(x.shape)
    if np.abs(altered.astype(np.float64) - x).max() > EPSILON or altered.min() < 0 or altered.max() > 1:
        sys.exit(f"{folder}: {name} has an input that is not allowed")
    before, after = (session.run(None, {"image": rows})[0].argmax(1) for rows in (x, altered))
    if not np.array_equal(before, after):
        sys.exit(f"{folder}: {name} changed {np.sum(before != after)} classes")


def name(eta, omega):
    return f"({eta:+d}, {SYMBOL[omega]})".replace("-", "−")


def attack_calibration(args, kind, x, y):
    """Returns the document of 'rscert attack --attack ace'. Python checks the inputs and the AdaECE in this
    document."""
    found = rscert(args, kind, "ace", len(x))
    session = ort.InferenceSession(args.folder / f"{kind}.onnx", providers=["CPUExecutionProvider"])
    correct = session.run(None, {"image": x})[0].argmax(1) == y
    for k, after in enumerate(found["confidences"]["after"]):
        if (after["eta"], after["omega"]) != SETTINGS[k]:
            sys.exit(f"setting {k} is {after['name']}")
        check_inputs(session, args.out / f"{kind}-ace", after["name"], x)
        if abs(adaptive_ece(confidences(found, k), correct) - after["adaece"]) > 1e-9:
            sys.exit(f"{kind}, {after['name']}: AdaECE is not {after['adaece']}")
    return found


def confidences(found, k):
    """Returns rscert's confidences for all images under setting k."""
    return np.array([row["altered"][k]["confidence"] for row in found["results"]])


def print_calibration(tables):
    """Prints table 1 together with the published figures."""
    print("<!-- made: ace -->\n")
    print("| network | setting | accuracy | ECE | AdaECE | AdaECE of Emde et al. |\n| --- | --- | ---: | ---: | ---: | ---: |")
    for kind, found in tables.items():
        found = found["confidences"]
        names = ["no attack", *(name(after["eta"], after["omega"]) for after in found["after"])]
        for row, setting, published in zip([found["before"], *found["after"]], names, PUBLISHED[kind]):
            shown = " | ".join(f"{100 * row[figure]:.2f}" for figure in ("accuracy", "ece", "adaece"))
            print(f"| {kind} | {setting} | {shown} | {published:.2f} |")
    print("\n<!-- end: ace -->", flush=True)


def print_check(args, tables, x, y):
    """Compares the attack of rscert with two attacks in PyTorch on the first images."""
    x, y = torch.from_numpy(x[: args.checked]), torch.from_numpy(y[: args.checked])
    print("<!-- made: ace-check -->\n")
    print("| network | setting | rscert | PyTorch | largest difference of a confidence | PyTorch, stopping |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for kind, found in tables.items():
        correct = np.array([row["predicted"] == row["label"] for row in found["results"]])[: args.checked]
        theirs = torch_confidences(args, kind, x, y)
        for k, setting in enumerate(SETTINGS):
            ours = confidences(found, k)[: args.checked]
            errors = [f"{100 * adaptive_ece(confidence, correct):.2f}" for confidence in (ours, *theirs[k])]
            difference = f"{np.abs(ours - theirs[k, 0]).max():.1g}"
            print(f"| {kind} | {name(*setting)} | {errors[0]} | {errors[1]} | {difference} | {errors[2]} |")
    print("\n<!-- end: ace-check -->", flush=True)


def print_robustness(args):
    """Prints robust accuracies with their intervals. The attack 'square' is slow, so it attacks fewer images."""
    counts = {"fgsm": args.attacked, "pgd": args.attacked, "square": args.squared}
    print("<!-- made: cifar-robust -->\n")
    print("| network | images | accuracy | attack | robust accuracy |\n| --- | ---: | ---: | --- | ---: |")
    for kind in KINDS:
        for attack, count in counts.items():
            found = rscert(args, kind, attack, count)
            shares = [f"{100 * s['share']:.1f} [{100 * s['low']:.1f}, {100 * s['high']:.1f}]" for s in (found["accuracy"], found["robust"])]
            print(f"| {kind} | {count} | {shares[0]} | `{attack}` | {shares[1]} |")
    print("\n<!-- end: cifar-robust -->", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rscert", default="bin/rscert")
    parser.add_argument("--folder", type=Path, required=True, help="the folder that train_cifar.py wrote")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the attacks; existing attacks go on")
    parser.add_argument("--attacked", type=int, default=500, help="the number of images for robust accuracy under fgsm and pgd")
    parser.add_argument("--squared", type=int, default=50, help="the number of images for robust accuracy under square")
    parser.add_argument("--examples", type=int, default=400, help="the number of images whose confidence is attacked")
    parser.add_argument("--checked", type=int, default=50, help="how many of them PyTorch attacks, too")
    parser.add_argument("--plots", type=Path, help="the folder for the reliability diagrams")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    with np.load(args.folder / "test.npz") as arrays:
        x, y = arrays["x"][: args.examples].astype(np.float32) / 255, arrays["y"][: args.examples]
    print_robustness(args)
    tables = {kind: attack_calibration(args, kind, x, y) for kind in KINDS}
    print_calibration(tables)
    print_check(args, tables, x, y)
    print("<!-- made: cifar-where -->\n")
    print(f"`make emde-table` measured these figures on {date.today():%-d %B %Y} on {platform.machine()} with {len(os.sched_getaffinity(0))} cores,")
    print(f"with PyTorch {torch.__version__} and ONNX Runtime {ort.__version__}.")
    print("\n<!-- end: cifar-where -->")


if __name__ == "__main__":
    main()
