"""Adversarial calibration training with the Brier score, Brier-ACT (Emde et al. 2025)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import nn
from torch.nn import functional

from rscert.train.ball import Ball, Range, ascend
from rscert.train.noise import Noise
from rscert.train.smooth import Batch, Objective, copies, cross_entropy, frozen, mean_probabilities
from rscert.train.warmup import warm


@dataclass(frozen=True)
class BrierACT:
    """The cross-entropy on inputs that an attack on the Brier score has perturbed.

    The attack maximises the Brier score of the smoothed probabilities over ‖γ‖₂ ≤ epsilon, in ``steps`` steps of length
    2·rate_factor·epsilon/steps. The paper uses SGD with weight decay 1e-4, batches of 256 examples, 10 epochs with
    ``warmup=3``, and divides the learning rate by 10 every 4 epochs. It tries rate_factor .01, .1, 1 and 2, learning
    rates .01 and .05, and 1 and 4 steps.

    The paper leaves these points open:

    - ``score``: ``top-label`` is (z − c)², where z is the largest smoothed probability and c says whether the
      prediction without attack is correct; the paper's bounds are about this score. ``multiclass`` is the squared
      distance between all probabilities and the label.
    - ``objective``: the cross-entropy of the mean probabilities, as in the paper's formula (7), or the mean
      cross-entropy of the copies, as in the code of SmoothAdv.
    - ``fixed_noise``: whether the steps of the attack and the loss use the same noise, as in SmoothAdv.
    """

    noise: Noise
    epsilon: float
    samples: int = 2
    steps: int = 4
    rate_factor: float = 1.0
    warmup: int = 3
    score: Literal["top-label", "multiclass"] = "top-label"
    objective: Objective = "ce-of-mean"
    fixed_noise: bool = True
    clip: Range = (0.0, 1.0)

    def at(self, epoch: int) -> BrierACT:
        """Returns the loss of an epoch, whose epsilon may still be growing."""
        return replace(self, epsilon=warm(self.epsilon, epoch, self.warmup), warmup=0)

    def __call__(self, model: nn.Module, batch: Batch, generator: torch.Generator | None = None) -> torch.Tensor:
        x, y = batch
        noise = self.noise.offsets(copies(x, self.samples), generator)
        delta = self.attack(model, batch, noise, generator)
        if not self.fixed_noise:
            noise = self.noise.offsets(noise, generator)
        return cross_entropy(model(copies(x + delta, self.samples) + noise), y, self.samples, self.objective)

    def attack(
        self, model: nn.Module, batch: Batch, noise: torch.Tensor, generator: torch.Generator | None = None
    ) -> torch.Tensor:
        """Returns the perturbations [N, …] for the given noise of the copies [N·m, …]."""
        x, y = batch
        correct: torch.Tensor | None = None
        fresh = noise

        def objective(delta: torch.Tensor) -> torch.Tensor:
            nonlocal correct, fresh
            probabilities = mean_probabilities(model(copies(x + delta, self.samples) + fresh), self.samples)
            if correct is None:
                correct = probabilities.argmax(1) == y
            if not self.fixed_noise:
                fresh = self.noise.offsets(noise, generator)
            return brier(probabilities, y, correct, self.score).sum()

        rate = 2 * self.rate_factor * self.epsilon / self.steps
        with frozen(model):
            return ascend(objective, x, Ball("l2", self.epsilon), steps=self.steps, rate=rate, clip=self.clip)


def brier(
    probabilities: torch.Tensor, y: torch.Tensor, correct: torch.Tensor, score: Literal["top-label", "multiclass"]
) -> torch.Tensor:
    """Returns the Brier score of each example [N]."""
    if score == "top-label":
        return (probabilities.amax(1) - correct.to(probabilities.dtype)) ** 2
    if score == "multiclass":
        return ((probabilities - functional.one_hot(y, probabilities.shape[1])) ** 2).sum(1)
    raise ValueError(f"score {score!r}: want top-label or multiclass")
