"""Adversarial training by projected gradient descent (Madry et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn import functional

from rscert.train.ball import Ball, Range, ascend
from rscert.train.smooth import Batch, frozen
from rscert.train.warmup import warm


@dataclass(frozen=True)
class AdversarialTraining:
    """The cross-entropy on inputs that projected gradient ascent has perturbed, without noise.

    The attack starts from a random point of the ball, and takes steps of the length ``rate``; by default this is
    2.5·radius/steps.
    """

    ball: Ball
    steps: int = 7
    rate: float | None = None
    random_start: bool = True
    warmup: int = 0
    clip: Range = (0.0, 1.0)

    def at(self, epoch: int) -> AdversarialTraining:
        """Returns the loss of an epoch, whose radius may still be growing."""
        radius = warm(self.ball.radius, epoch, self.warmup)
        return replace(self, ball=replace(self.ball, radius=radius), warmup=0)

    def __call__(self, model: nn.Module, batch: Batch, generator: torch.Generator | None = None) -> torch.Tensor:
        x, y = batch
        start = self.ball.random(x, generator) if self.random_start else None

        def objective(delta: torch.Tensor) -> torch.Tensor:
            return functional.cross_entropy(model(x + delta), y, reduction="sum")

        rate = 2.5 * self.ball.radius / self.steps if self.rate is None else self.rate
        with frozen(model):
            delta = ascend(objective, x, self.ball, steps=self.steps, rate=rate, start=start, clip=self.clip)
        return functional.cross_entropy(model(x + delta), y)
