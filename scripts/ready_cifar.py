#!/usr/bin/env python3
"""Train a ResNet-20 on CIFAR-10 with Gaussian noise, for internal/builtin/models; see 'make ready-cifar'.

    python scripts/ready_cifar.py --data ../shared/data/cifar10-jpeg --out out/cifar --sigma 0.25
    python scripts/ready_cifar.py --data ../shared/data/cifar10-jpeg --out out/cifar --sigma 0.5

The data are JPEG copies of the images of CIFAR-10, in Parquet. The noise is the noise that the program adds. The
training has three stages with the same loss. The first stage sees random squares of the images, which costs half as much
as whole images. The other two stages see whole images, mirrored and shifted at random; the last stage starts with a
lower rate. All stages use the first 49,000 training images. The other 1,000 training images are for the accuracy in
log.csv only. No test image is used in training or for any choice.

The folder OUT gets the images in train.npz and test.npz, and the progress, so that an interrupted training can
continue. The file of the model holds the recipes of all stages. One free core trains a network in 20 minutes.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import rscert
import torch
from rscert.train import Cosine, GaussianAugmentation, Options, Standardise, fit, gaussian, recipe, resnet
from torch import nn

from mnist_digits import ROOT
from train_cifar import MEAN, SHIFT, STD, cached, shifted

CROP = 24  # the side of the squares of the first stage, in pixels
VALIDATION = 1000  # the last training images are for the accuracy in log.csv only
NETWORK = "resnet20 with standardised pixels"
IMAGES = "CIFAR-10 as JPEG copies, the first 49,000 training images"


@dataclass(frozen=True)
class First:
    """The first epochs of a schedule that is made for ``whole`` epochs. The rate does not reach 0."""

    schedule: Cosine
    whole: int

    def factor(self, epoch, epochs):
        return self.schedule.factor(epoch, self.whole)


def cropped(x, generator):
    """Mirrors each image with probability 1/2 and cuts a square of side CROP out of it at random."""
    n, room = len(x), x.shape[-1] - CROP
    x = torch.where((torch.rand(n, generator=generator) < 0.5)[:, None, None, None], x.flip(3), x)
    row, column = torch.randint(0, room + 1, (2, n, 1), generator=generator) + torch.arange(CROP)
    example = torch.arange(n)[:, None, None]
    return x.permute(0, 2, 3, 1)[example, row[:, :, None], column[:, None]].permute(0, 3, 1, 2).contiguous()


@dataclass(frozen=True)
class Stage:
    """A part of the training, with its own schedule."""

    augment: Callable
    augmentation: str  # in words, for the recipe
    options: Options


COMMON = {"batch": 64, "weight_decay": 5e-4}
STAGES = {
    "squares": Stage(
        cropped, f"mirror, random square of side {CROP}",
        Options(epochs=4, rate=0.1, schedule=First(Cosine(warmup=0.5), 5), seed=1, **COMMON),
    ),
    "whole": Stage(
        shifted, f"mirror, shift by up to {SHIFT} pixels, black border",
        Options(epochs=1, rate=0.05, schedule=Cosine(warmup=0.1), seed=2, **COMMON),
    ),
    "again": Stage(
        shifted, f"mirror, shift by up to {SHIFT} pixels, black border",
        Options(epochs=1, rate=0.03, schedule=Cosine(warmup=0.1), seed=3, **COMMON),
    ),
}  # fmt: skip


def network():
    """Returns the ResNet-20, which takes pixels in [0, 1]."""
    return nn.Sequential(Standardise(list(MEAN), list(STD)), resnet(20)).to(memory_format=torch.channels_last)


def read(data, out):
    """Returns the training images and the validation images, and writes all images into the folder OUT."""
    cached(data, out, "test")
    x, y = cached(data, out, "train")
    return (x[:-VALIDATION], y[:-VALIDATION]), (x[-VALIDATION:], y[-VALIDATION:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder with train.parquet and test.parquet")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the images and the progress")
    parser.add_argument("--models", type=Path, default=ROOT / "internal/builtin/models", help="the folder for the model")
    parser.add_argument("--sigma", type=float, required=True, help="the standard deviation of the noise")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # so that sums have the same order in each run
    train, validation = read(args.data, args.out)
    noise, name = gaussian(args.sigma), f"cifar10-gaussian-{args.sigma:g}"
    loss, folder = GaussianAugmentation(noise), args.out / name
    torch.manual_seed(1)
    model, made = network(), None
    for stage, parts in STAGES.items():
        fitted = fit(
            model, train, loss, parts.options, out=folder / stage, augment=parts.augment, validation=validation,
            noise=noise, progress=True,
        )  # fmt: skip
        begun = {} if made is None else {"start": made}
        made = recipe(train, loss, parts.options, network=NETWORK, images=IMAGES, augmentation=parts.augmentation, **begun)
        model = fitted.model
    torch.save(model.state_dict(), folder / "weights.pt")
    args.models.mkdir(parents=True, exist_ok=True)
    exported = rscert.export(model, args.models / f"{name}.onnx", shape=(3, 32, 32), recipe=made, examples=validation[0])
    exported.recipe.unlink()  # the file holds the recipe


if __name__ == "__main__":
    main()
