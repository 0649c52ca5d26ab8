"""Confidence-calibrated adversarial training (Stutz, Hein & Schiele 2020)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from rscert.train.ball import Ball, Range, clipped
from rscert.train.smooth import Batch, frozen


@dataclass(frozen=True)
class CCAT:
    """The loss of confidence-calibrated adversarial training.

    Half of the batch is perturbed. The targets of the perturbed examples move from the label to the uniform
    distribution as the perturbation grows:

        target = λ·onehot(y) + (1 − λ)/K,  λ = (1 − min(1, ‖δ‖/radius))^power.

    The attack maximises the largest probability among the wrong classes by gradient ascent with momentum. A step that
    lowers this probability is undone, and the rate of this example is divided by ``backtrack``. Half of the attacked
    examples start from a random point of the ball, the other half from 0. The result is the best point of the attack.
    The loss is the mean cross-entropy of the two halves.
    """

    ball: Ball
    steps: int = 40
    rate: float = 0.005
    momentum: float = 0.9
    backtrack: float = 1.5
    power: float = 10.0
    clip: Range = (0.0, 1.0)

    def __call__(self, model: nn.Module, batch: Batch, generator: torch.Generator | None = None) -> torch.Tensor:
        x, y = batch
        half = len(x) // 2
        attacked = (x[:half], y[:half])
        delta = self.attack(model, attacked, generator)
        logits = model(torch.cat([attacked[0] + delta, x[half:]]))
        target = functional.one_hot(y, logits.shape[1]).to(logits.dtype)
        target = torch.cat([self.target(y[:half], delta, logits.shape[1]).to(logits.dtype), target[half:]])
        return functional.cross_entropy(logits, target)

    def target(self, y: torch.Tensor, delta: torch.Tensor, classes: int) -> torch.Tensor:
        """Returns the target distributions [N, K] of perturbed examples."""
        share = (1 - (self.ball.sizes(delta) / self.ball.radius).clamp(max=1)) ** self.power
        return share[:, None] * functional.one_hot(y, classes) + (1 - share[:, None]) / classes

    def attack(self, model: nn.Module, batch: Batch, generator: torch.Generator | None = None) -> torch.Tensor:
        """Returns the perturbations [N, …]."""
        x, y = batch
        start = self.ball.random(x, generator)
        start[1::2] = 0

        def confidence(delta: torch.Tensor) -> torch.Tensor:
            scores = functional.softmax(model(x + delta), 1)
            label = functional.one_hot(y, scores.shape[1]).bool()
            return scores.masked_fill(label, -1).amax(1)

        with frozen(model):
            return self._ascend(confidence, x, clipped(x, start, self.clip))

    def _ascend(
        self, objective: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, delta: torch.Tensor
    ) -> torch.Tensor:
        def column(per_example: torch.Tensor) -> torch.Tensor:
            return per_example.reshape(-1, *[1] * (x.dim() - 1))

        rate = torch.full((len(x),), self.rate, dtype=x.dtype, device=x.device)
        velocity = torch.zeros_like(x)
        value, gradient = _gradient(objective, delta)
        for _ in range(self.steps):
            moved = self.momentum * velocity + (1 - self.momentum) * self.ball.direction(gradient)
            tried = clipped(x, self.ball.project(delta + column(rate) * moved), self.clip)
            tried_value, tried_gradient = _gradient(objective, tried)
            better = tried_value >= value
            keep = column(better)
            delta = torch.where(keep, tried, delta)
            gradient = torch.where(keep, tried_gradient, gradient)
            velocity = torch.where(keep, moved, velocity)
            value = torch.where(better, tried_value, value)
            rate = torch.where(better, rate, rate / self.backtrack)
        return delta


def _gradient(
    objective: Callable[[torch.Tensor], torch.Tensor], delta: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    delta = delta.detach().requires_grad_(True)
    value = objective(delta)
    (gradient,) = torch.autograd.grad(value.sum(), delta)
    return value.detach(), gradient
