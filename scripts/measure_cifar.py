#!/usr/bin/env python3
"""Certify the ready models of CIFAR-10, fine-tune one of them, and certify the results: tables of docs/training.md.

    python scripts/measure_cifar.py --data ../shared/data/cifar10-jpeg --out out/cifar certify --sigma 0.25
    python scripts/measure_cifar.py --data ../shared/data/cifar10-jpeg --out out/cifar certify --sigma 0.5
    python scripts/measure_cifar.py --data ../shared/data/cifar10-jpeg --out out/cifar act
    python scripts/measure_cifar.py --data ../shared/data/cifar10-jpeg --out out/cifar tables --cohen ../shared/data/cohen2019

The first two commands certify the ready models on the first test images. The third command fine-tunes the ready model
with sigma 0.5 by SmoothAdv (the control), Brier-ACT and ACCE-ACT, with the same images, epochs, samples and steps, and
certifies the results. If a command was interrupted, the next call continues its work. The last command prints the
tables. No setting was chosen by results on test images.

The script needs the folder OUT of scripts/ready_cifar.py, the Python package rscert[train] and its program.
"""

import argparse
import csv
import json
import math
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime as ort
import rscert
import torch
from rscert.train import ACCEACT, BrierACT, Penalties, SmoothAdv, fit, gaussian, noisy_accuracy, recipe

from measure_training import calibration, interval, radii_of, tuning
from mnist_digits import ROOT
from ready_cifar import NETWORK, network, read
from train_cifar import shifted

SIGMAS, TUNED_SIGMA, RADII = (0.25, 0.5), 0.5, (0.25, 0.5, 1.0)
NOISE = gaussian(TUNED_SIGMA)
ATTACK = {"epsilon": 0.5, "samples": 2, "steps": 2, "warmup": 2}
TUNED = {
    "at": SmoothAdv(NOISE, **ATTACK, objective="ce-of-mean"),
    "brier-act": BrierACT(NOISE, **ATTACK),
    "acce-act": ACCEACT(NOISE, **ATTACK, penalties=Penalties(growth=0.5)),
}


def ready(sigma):
    return f"cifar10-gaussian-{sigma:g}"


def certify(args, folder, model, sigma):
    """Certifies a model on the first test images, unless this is done."""
    if (folder / "done").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / "run"
    resume = ["--resume"] if (out / "run.json").exists() else []
    subprocess.run(
        [rscert.program(), "certify", "--model", model, "--data", args.out / "test.npz", "--sigma", str(sigma),
         "--max", str(args.images), "--n", str(args.n), "--seed", "1", "--confidence-radii", ",".join(map(str, RADII)),
         "--out", out, "--quiet", "--threads", str(args.threads), *resume],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    (folder / "done").touch()


def run_certify(args):
    for sigma in args.sigma:
        folder = args.out / f"certified-{sigma:g}"
        certify(args, folder, f"builtin:{ready(sigma)}", sigma)
        # The bounds on the confidence take half of alpha. The table of the ready models takes all of alpha for the radii.
        subprocess.run(
            [rscert.program(), "radius", folder / "run", "--alpha", "0.001", "--out", folder / "radii.jsonl", "--quiet"],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip


def run_act(args):
    for seed in args.seeds:
        for name in args.losses:
            tune(args, name, seed)


def tune(args, name, seed):
    """Fine-tunes the ready model by a loss, exports it and certifies it, unless this is done."""
    (x, y), validation = read(args.data, args.out)
    rows = np.random.default_rng(1).permutation(len(y))[: args.examples]
    data, begun = (x[rows], y[rows]), args.out / ready(TUNED_SIGMA)
    folder, settings = args.out / f"{name}-{seed}", tuning(seed, args.epochs)
    path = folder / "model.onnx"
    if not path.exists():
        print(f"{name}, seed {seed}", flush=True)
        model = network()
        model.load_state_dict(torch.load(begun / "weights.pt", weights_only=True))
        more = {"validation": validation, "noise": NOISE, "progress": True}
        fitted = fit(model, data, TUNED[name], settings, out=folder, augment=shifted, **more)
        made = recipe(data, TUNED[name], settings, network=NETWORK, start=f"builtin:{begun.name}")
        rscert.export(fitted.model, path, shape=(3, 32, 32), recipe=made, examples=validation[0])
    certify(args, folder, path, TUNED_SIGMA)


def certified(path):
    """Returns the radius of each image, and whether its certified class is correct. If it is not, the radius is 0."""
    with path.open() as lines:
        rows = [json.loads(line) for line in lines]
    right = np.array([row["correct"] for row in rows])
    return np.where(right, [row["radius"] for row in rows], 0.0), right


def published(path):
    """Returns the same for a log of Cohen et al. (2019)."""
    rows = np.genfromtxt(path, names=True)
    right = rows["correct"] == 1
    return np.where(right, rows["radius"], 0.0), right


def samples(folder):
    return json.loads((folder / "run/run.json").read_text())["parameters"]["n"]


def ready_table(args):
    limits = (0, 0.25, 0.5, 0.75, 1)
    print("| model | σ | images | n | certified in % at 0 | at 0.25 | at 0.5 | at 0.75 | at 1 | average certified radius |")
    print("| --- " * (5 + len(limits)) + "|")
    for sigma in SIGMAS:
        own = args.out / f"certified-{sigma:g}"
        log = args.cohen / f"cifar10-resnet110-sigma{sigma:.2f}.tsv"
        rows = [(f"`builtin:{ready(sigma)}`", samples(own), certified(own / "radii.jsonl")), ("ResNet-110 of Cohen et al.", 100_000, published(log))]
        for name, n, (radii, right) in rows:
            shares = " | ".join(f"{100 * (right & (radii >= limit)).mean():.1f}" for limit in limits)
            print(f"| {name} | {sigma:g} | {len(radii)} | {n:,} | {shares} | {radii.mean():.3f} |")


def finished(args):
    """Returns the seeds whose fine-tuned models are all certified."""
    return [seed for seed in args.seeds if all((args.out / f"{name}-{seed}" / "done").exists() for name in TUNED)]


def act_table(args):
    """Prints a row for the ready model and for each loss, with one value for each seed in each cell."""
    print("| radius | fine-tuning | certified accuracy in % | average certified radius | certified Brier score | exact CCE | images |")
    print("| --- " * 7 + "|")
    rows = {"none": [args.out / f"certified-{TUNED_SIGMA:g}"]}
    rows |= {f"`{type(loss).__name__}`": [args.out / f"{name}-{seed}" for seed in finished(args)] for name, loss in TUNED.items()}
    for radius in RADII:
        for name, folders in rows.items():
            cells = [calibrated(folder, radius) for folder in folders]
            print(f"| {radius:g} | {name} | {' | '.join(', '.join(column) for column in zip(*cells, strict=True))} |")


def calibrated(folder, radius):
    """Returns the cells of a model: its accuracy, its average radius, its CBS, its exact CCE and the number of its
    certified images."""
    radii = radii_of(folder)
    row = next((r for r in calibration(folder) if r["radius"] == radius), {"n": 0})
    # Rounded up, because the numbers are upper bounds.
    upper = [f"{math.ceil(1e4 * row[key]) / 1e4:.4f}" if key in row else "–" for key in ("cbs", "cce")]
    return [f"{100 * (radii >= radius).mean():.1f}", f"{radii.mean():.3f}", *upper, str(row["n"])]


def paired(args, name, value):
    """Returns the mean difference to the control, over seeds and images, with a bootstrap interval over the images."""
    gains = [np.array(value(args.out / f"{name}-{seed}"), float) - value(args.out / f"at-{seed}") for seed in finished(args)]
    return np.mean(gains), *interval(np.array(gains))


def bounds(folder, radius):
    """Returns the rows of bounds.csv of the images that are certified within the radius, by the index of the image."""
    with (folder / "run/bounds.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if float(row["radius"]) == radius and row["certified"] == "1"]
    return {row["index"]: row for row in rows}


def errors_of_common(folder, control, radius):
    """Returns the exact CCE of two models over the images that both certify within the radius, and the number of these
    images."""
    both = [bounds(f, radius) for f in (folder, control)]
    common = [index for index in both[0] if index in both[1]]
    columns = ["index", "correct", "confidence", "radius", "lower", "upper"]
    found = []
    for rows in both:
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "bounds.csv"
            with path.open("w", newline="") as file:
                writer = csv.DictWriter(file, columns, extrasaction="ignore")
                writer.writeheader()
                writer.writerows(rows[index] for index in common)
            done = subprocess.run([rscert.program(), "acce", path, "--json"], check=True, capture_output=True)
            found.append(json.loads(done.stdout)["cce"])
    return *found, len(common)


def difference_tables(args):
    """Prints the differences to the control, on the same images."""
    print("| fine-tuning | average certified radius (95 %) | certified accuracy at 0.25 in points (95 %) | at 0.5 (95 %) |")
    print("| --- " * 4 + "|")
    values = [(3, radii_of), *[(1, lambda folder, r=r: 100.0 * (radii_of(folder) >= r)) for r in RADII[:2]]]
    for name in list(TUNED)[1:]:
        cells = [[f"{v:+.{digits}f}" for v in paired(args, name, value)] for digits, value in values]
        texts = " | ".join(f"{mean} ({low} to {high})" for mean, low, high in cells).replace("-", "−")
        print(f"| `{type(TUNED[name]).__name__}` | {texts} |")
    print()
    print("| radius | fine-tuning | images that both models certify | difference of the exact CCE on these images |")
    print("| --- " * 4 + "|")
    for radius in RADII:
        for name in list(TUNED)[1:]:
            found = [errors_of_common(args.out / f"{name}-{s}", args.out / f"at-{s}", radius) for s in finished(args)]
            gains = ", ".join(f"{own - control:+.4f}" for own, control, _ in found).replace("-", "−")
            print(f"| {radius:g} | `{type(TUNED[name]).__name__}` | {', '.join(str(n) for *_, n in found)} | {gains} |")


def accuracies(args):
    """Prints the accuracy of the ready models on all test images, without noise and with one noisy copy of each image."""
    with np.load(args.out / "test.npz") as arrays:
        x, y = arrays["x"], arrays["y"]
    for sigma in SIGMAS:
        model = network()
        model.load_state_dict(torch.load(args.out / ready(sigma) / "weights.pt", weights_only=True))
        session = ort.InferenceSession(args.models / f"{ready(sigma)}.onnx", providers=["CPUExecutionProvider"])
        answers = [session.run(None, {"input": part.astype(np.float32) / 255})[0].argmax(1) for part in np.array_split(x, 50)]
        right = np.concatenate(answers) == y
        noisy = noisy_accuracy(model, (x, y), gaussian(sigma))
        first = right[: args.images]
        print(f"{ready(sigma)}: {right.mean():.4f} without noise, {noisy:.4f} with noise; first {len(first)} images: {first.mean():.4f}")


def run_tables(args):
    for table in (accuracies, ready_table, act_table, difference_tables):
        table(args)
        print()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["certify", "act", "tables"])
    parser.add_argument("--data", type=Path, required=True, help="the folder with train.parquet and test.parquet")
    parser.add_argument("--out", type=Path, required=True, help="the folder of scripts/ready_cifar.py")
    parser.add_argument("--models", type=Path, default=ROOT / "internal/builtin/models", help="the folder of the ready models")
    parser.add_argument("--cohen", type=Path, help="for tables: the folder with the logs of Cohen et al.")
    parser.add_argument("--sigma", type=float, nargs="+", default=SIGMAS, help="for certify: the ready models")
    parser.add_argument("--losses", nargs="+", choices=TUNED, default=list(TUNED), help="for act: the losses")
    parser.add_argument("--seeds", type=int, nargs="+", default=(1, 2), help="for act and tables: the seeds of the fine-tuning")
    parser.add_argument("--examples", type=int, default=2048, help="training images of the fine-tuning")
    parser.add_argument("--epochs", type=int, default=3, help="epochs of the fine-tuning")
    parser.add_argument("--images", type=int, default=200, help="test images to certify")
    parser.add_argument("--n", type=int, default=500)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    {"certify": run_certify, "act": run_act, "tables": run_tables}[args.command](args)


if __name__ == "__main__":
    main()
