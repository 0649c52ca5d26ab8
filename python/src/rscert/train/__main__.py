"""The command ``rscert train``: trains a classifier under noise and exports it."""

from __future__ import annotations

import argparse
import runpy
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
from torch import nn

import rscert
from rscert.train import (
    ACCEACT,
    BrierACT,
    Consistency,
    Cosine,
    GaussianAugmentation,
    Loss,
    Noise,
    Options,
    SmoothAdv,
    digits_cnn,
    fit,
    recipe,
    resnet,
)
from rscert.train.data import Arrays, read

LOSSES: dict[str, Callable[[Noise, argparse.Namespace], Loss]] = {
    "gaussian": lambda noise, _: GaussianAugmentation(noise),
    "consistency": lambda noise, o: Consistency(noise, o.samples, o.consistency),
    "smoothadv": lambda noise, o: SmoothAdv(noise, o.epsilon, o.samples, o.steps, warmup=o.warmup),
    "brier-act": lambda noise, o: BrierACT(noise, o.epsilon, o.samples, o.steps, warmup=o.warmup),
    "acce-act": lambda noise, o: ACCEACT(noise, o.epsilon, o.samples, o.steps, warmup=o.warmup),
}
NETWORKS: dict[str, Callable[[int, int], nn.Module]] = {
    "digits-cnn": digits_cnn,
    "resnet20": lambda channels, classes: resnet(20, channels, classes),
    "resnet110": lambda channels, classes: resnet(110, channels, classes),
}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors have the form of the program's errors."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see rscert train --help")


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = _Parser(
        prog="rscert train",
        description="Train a classifier that predicts well under noise, and export it as OUT/model.onnx with its recipe. "
        "An interrupted training continues when you run the same command again.",
        epilog="example: rscert train --data digits.npz --sigma 0.5 --epochs 20 --out trained",
        allow_abbrev=False,
    )
    add = made.add_argument
    add(
        "--data",
        required=True,
        metavar="FILE",
        help=".npz file with the arrays x and y, or a folder with MNIST's IDX files",
    )
    add("--sigma", type=float, required=True, metavar="S", help="scale of the noise, as in 'rscert certify'")
    add(
        "--out",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder for the model, its recipe, log.csv and the checkpoint",
    )
    add(
        "--law",
        choices=["gaussian", "laplace", "uniform"],
        default="gaussian",
        help="law of the noise (default gaussian)",
    )
    add("--loss", choices=list(LOSSES), default="consistency", help="loss (default consistency); see docs/training.md")
    add("--network", default="digits-cnn", metavar="NAME",
        help=f"{', '.join(NETWORKS)}, or FILE.py:FUNCTION for a function that returns a torch.nn.Module "
        "(default digits-cnn)")  # fmt: skip
    add("--epochs", type=int, default=20, help="number of epochs (default 20)")
    add("--batch", type=int, default=128, help="examples per step (default 128)")
    add("--optimiser", choices=["adamw", "sgd"], default="adamw", help="optimiser (default adamw)")
    add("--rate", type=float, default=2e-3, help="largest learning rate, lowered along a cosine (default 0.002)")
    add("--weight-decay", type=float, default=1e-4, help="weight decay (default 0.0001)")
    add(
        "--average",
        type=float,
        default=0.99,
        help="decay of the averaged weights that are exported; 0: none (default 0.99)",
    )
    add("--samples", type=int, default=2, help="noisy copies of each example (default 2)")
    add("--consistency", type=float, default=5.0, metavar="WEIGHT", help="weight of the consistency term (default 5)")
    add(
        "--epsilon",
        type=float,
        default=1.0,
        help="L2 radius of the attacks of smoothadv, brier-act and acce-act (default 1)",
    )
    add("--steps", type=int, default=2, help="steps of these attacks (default 2)")
    add("--warmup", type=int, default=3, help="epochs over which the radius of these attacks grows (default 3)")
    add(
        "--validation",
        type=int,
        default=0,
        metavar="N",
        help="keep the last N examples for the accuracy in log.csv (default 0)",
    )
    add("--mean", type=numbers, metavar="A,B", help="means per channel that the exported model subtracts first")
    add("--std", type=numbers, metavar="A,B", help="standard deviations per channel by which it then divides")
    add("--seed", type=int, default=1, help="seed of the training (default 1)")
    add("--device", default="cpu", help="PyTorch's name of the device, such as cuda (default cpu)")
    add("--threads", type=int, default=0, help="threads of PyTorch on the CPU (default: PyTorch's choice)")
    add("--quiet", action="store_true", help="do not show progress")
    return made


def numbers(text: str) -> list[float]:
    """Parses numbers separated by commas."""
    return [float(part) for part in text.split(",")]


def network(name: str, channels: int, classes: int) -> nn.Module:
    """Returns a network by its name, or by FILE.py:FUNCTION."""
    if name in NETWORKS:
        return NETWORKS[name](channels, classes)
    file, colon, function = name.rpartition(":")
    if not colon:
        raise ValueError(f"--network {name}: want {', '.join(NETWORKS)}, or FILE.py:FUNCTION")
    made = runpy.run_path(file).get(function)
    if not callable(made):
        raise ValueError(f"--network {name}: {file} has no function {function}")
    model = made()
    if not isinstance(model, nn.Module):
        raise ValueError(f"--network {name}: the function returns a {type(model).__name__}, want a torch.nn.Module")
    return model


def split(data: Arrays, last: int) -> tuple[Arrays, Arrays | None]:
    """Splits off the last examples for validation."""
    x, y = data
    if not 0 <= last < len(y):
        raise ValueError(f"--validation {last}: the data have {len(y)} examples")
    if last == 0:
        return data, None
    return (x[:-last], y[:-last]), (x[-last:], y[-last:])


def run(options: argparse.Namespace) -> None:
    """Trains, exports and says what to do next."""
    if options.threads > 0:
        torch.set_num_threads(options.threads)
    data, validation = split(read(options.data), options.validation)
    bytewise = data[0].dtype == np.uint8
    noise = Noise(options.law, options.sigma) if bytewise else Noise(options.law, options.sigma, step=None)
    loss = LOSSES[options.loss](noise, options)
    torch.manual_seed(options.seed)
    model = network(options.network, data[0].shape[1], int(data[1].max()) + 1)
    if options.mean is not None and options.std is not None:
        model = nn.Sequential(rscert.train.Standardise(options.mean, options.std), model)
    elif options.mean is not None or options.std is not None:
        raise ValueError("--mean and --std: give both or neither")
    settings = Options(
        epochs=options.epochs, batch=options.batch, optimiser=options.optimiser, rate=options.rate,
        weight_decay=options.weight_decay, schedule=Cosine(warmup=0.5), average=options.average, seed=options.seed,
        device=options.device,
    )  # fmt: skip
    fitted = fit(
        model, data, loss, settings, out=options.out, validation=validation, noise=noise if validation is not None else None,
        progress=not options.quiet,
    )  # fmt: skip
    made = recipe(data, loss, settings, network=options.network)
    checked = data[0][:256] if validation is None else validation[0]
    exported = rscert.export(
        fitted.model, options.out / "model.onnx", shape=data[0].shape[1:], recipe=made, examples=checked
    )
    print(f"wrote {exported.path} and {exported.recipe}: {len(checked)} predictions are those of PyTorch")
    law = "" if options.law == "gaussian" else f" --law {options.law}"
    # The training data would overstate the accuracy.
    print(
        f"next: rscert certify --model {shlex.quote(str(exported.path))} --data TEST-DATA "
        f"--sigma {options.sigma:g}{law} --out run"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code, as in the program."""
    try:
        run(parser().parse_args(arguments))
    except OSError as problem:
        print(
            f"rscert: {problem.filename}: {problem.strerror}" if problem.filename else f"rscert: {problem}",
            file=sys.stderr,
        )
        return 2
    except ValueError as problem:
        print(f"rscert: {problem}", file=sys.stderr)
        return 2
    except FloatingPointError as problem:
        print(f"rscert: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("rscert: interrupted; the same command continues after the last finished epoch", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
