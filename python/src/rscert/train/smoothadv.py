"""Adversarial training of smoothed classifiers (Salman et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn

from rscert.train.ball import Ball, Range, ascend
from rscert.train.noise import Noise
from rscert.train.smooth import Batch, Objective, copies, cross_entropy, frozen
from rscert.train.warmup import warm


@dataclass(frozen=True)
class SmoothAdv:
    """The loss on inputs that an attack on the smoothed classifier has perturbed.

    The attack (the paper's SmoothAdv-PGD) maximises the cross-entropy of the mean probabilities of m noisy copies over
    ‖δ‖₂ ≤ epsilon, in ``steps`` steps of length 2·rate_factor·epsilon/steps. The attack and the loss use the same
    noise. The paper's code takes the mean cross-entropy of the copies as the loss, and grows epsilon over the first ten
    epochs (``warmup=10``).
    """

    noise: Noise
    epsilon: float
    samples: int = 2
    steps: int = 4
    rate_factor: float = 1.0
    warmup: int = 10
    objective: Objective = "mean-of-ce"
    clip: Range = (0.0, 1.0)

    def at(self, epoch: int) -> SmoothAdv:
        """Returns the loss of an epoch, whose epsilon may still be growing."""
        return replace(self, epsilon=warm(self.epsilon, epoch, self.warmup), warmup=0)

    def __call__(self, model: nn.Module, batch: Batch, generator: torch.Generator | None = None) -> torch.Tensor:
        x, y = batch
        noise = self.noise.offsets(copies(x, self.samples), generator)
        delta = self.attack(model, batch, noise)
        return cross_entropy(model(copies(x + delta, self.samples) + noise), y, self.samples, self.objective)

    def attack(self, model: nn.Module, batch: Batch, noise: torch.Tensor) -> torch.Tensor:
        """Returns the perturbations [N, …] for the given noise of the copies [N·m, …]."""
        x, y = batch

        def objective(delta: torch.Tensor) -> torch.Tensor:
            logits = model(copies(x + delta, self.samples) + noise)
            return len(x) * cross_entropy(logits, y, self.samples, "ce-of-mean")

        rate = 2 * self.rate_factor * self.epsilon / self.steps
        with frozen(model):
            return ascend(objective, x, Ball("l2", self.epsilon), steps=self.steps, rate=rate, clip=self.clip)
