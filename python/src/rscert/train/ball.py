"""Projected gradient ascent within a ball around each input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

Norm = Literal["l2", "linf"]
# The range to which perturbed inputs are clipped, or None.
Range = tuple[float, float] | None


@dataclass(frozen=True)
class Ball:
    """The perturbations δ with ‖δ‖ ≤ radius, one for each example of a batch."""

    norm: Norm
    radius: float

    def __post_init__(self) -> None:
        if self.norm not in ("l2", "linf"):
            raise ValueError(f"norm {self.norm!r}: want l2 or linf")
        if not self.radius >= 0:
            raise ValueError(f"radius {self.radius}: want a number of at least 0")

    def sizes(self, delta: torch.Tensor) -> torch.Tensor:
        """Returns the norm of each perturbation [N]."""
        flat = delta.flatten(1)
        return flat.norm(dim=1) if self.norm == "l2" else flat.abs().amax(1)

    def project(self, delta: torch.Tensor) -> torch.Tensor:
        """Returns the nearest perturbations within the ball."""
        if self.norm == "linf":
            return delta.clamp(-self.radius, self.radius)
        size = self.sizes(delta).clamp(min=1e-12)
        return delta * _column((self.radius / size).clamp(max=1), delta)

    def direction(self, gradient: torch.Tensor) -> torch.Tensor:
        """Returns the steepest direction of norm 1 for each example. A gradient of 0 gives the direction 0."""
        if self.norm == "linf":
            return gradient.sign()
        return gradient / _column(self.sizes(gradient).clamp(min=1e-12), gradient)

    def random(self, x: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        """Returns perturbations with a random direction, whose norm is uniform between 0 and the radius."""
        drawn = torch.empty_like(x)
        drawn = drawn.normal_(generator=generator) if self.norm == "l2" else drawn.uniform_(-1, 1, generator=generator)
        share = torch.empty(len(x), dtype=x.dtype, device=x.device).uniform_(generator=generator)
        return drawn * _column(self.radius * share / self.sizes(drawn).clamp(min=1e-12), x)


def ascend(
    objective: Callable[[torch.Tensor], torch.Tensor],
    x: torch.Tensor,
    ball: Ball,
    *,
    steps: int,
    rate: float,
    start: torch.Tensor | None = None,
    clip: Range = (0.0, 1.0),
) -> torch.Tensor:
    """Maximises the objective over perturbations of x [N, …] within the ball, by projected gradient ascent.

    The objective maps perturbations to one number, the sum over the examples. Each of the steps has the length ``rate``
    in the norm of the ball. The perturbed inputs stay within ``clip``, and the ascent starts from ``start``, or from 0.
    """
    delta = torch.zeros_like(x) if start is None else clipped(x, ball.project(start), clip)
    for _ in range(steps):
        delta.requires_grad_(True)
        (gradient,) = torch.autograd.grad(objective(delta), delta)
        delta = climb(delta.detach(), gradient, x, ball, rate=rate, clip=clip)
    return delta


def climb(
    delta: torch.Tensor, gradient: torch.Tensor, x: torch.Tensor, ball: Ball, *, rate: float, clip: Range
) -> torch.Tensor:
    """Takes one step of projected gradient ascent."""
    return clipped(x, ball.project(delta + rate * ball.direction(gradient)), clip)


def clipped(x: torch.Tensor, delta: torch.Tensor, clip: Range) -> torch.Tensor:
    """Shortens delta so that x + delta stays within the range. This never leaves a ball around 0, if x is in the
    range."""
    return delta if clip is None else (x + delta).clamp(*clip) - x


def _column(per_example: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return per_example.reshape(-1, *[1] * (like.dim() - 1))
