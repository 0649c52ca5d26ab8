"""Training for scores that will be perturbed (Ciosek et al. 2025, appendix F)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from rscert.train.smooth import Batch

_TINY = 1e-12  # keeps the logarithm of a score finite


@dataclass(frozen=True)
class PerturbationAware:
    """The loss of a binary classifier whose scores ``rscert perturb`` will replace by random scores nearby.

    The perturbed score s of a score t has the density sech((s − t)/bandwidth)/Z on [0, 1]. The loss is −E log s for
    examples of class 1 and −E log(1 − s) for class 0, by Gauss–Legendre quadrature with ``nodes`` nodes. The pair term
    of the paper is added: the mean of softplus(2h − (zᵢ − zⱼ)) over the pairs of an example i of class 1 and an example
    j of class 0 with |tᵢ − tⱼ| < 2h. Here z is the logit of the score and h the bandwidth. ``pair_weight`` is 1 in the
    paper.

    The model returns one logit [N] or [N, 1], or two logits [N, 2] with z = their difference.
    """

    bandwidth: float = 2**-6
    nodes: int = 64
    pair_weight: float = 1.0

    def __call__(self, model: nn.Module, batch: Batch, generator: torch.Generator | None = None) -> torch.Tensor:
        x, y = batch
        z = binary_logit(model(x))
        score, label = torch.sigmoid(z), y.to(z.dtype)
        log_one, log_zero = self.expected_logs(score)
        return -(label * log_one + (1 - label) * log_zero).mean() + self.pair_weight * self.pairs(z, y)

    def expected_logs(self, score: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns E log s and E log(1 − s) for each score [N].

        The quadrature is over the value u of the distribution function of s. The inverse of this function is
        s = t + h·asinh(tan(θ₀ + u(θ₁ − θ₀))), θ₀ = −atan sinh(t/h), θ₁ = atan sinh((1 − t)/h).
        """
        t, h = score.double()[:, None], self.bandwidth
        points, weights = (torch.from_numpy(v).to(score.device) for v in _legendre(self.nodes))
        low, high = -_gudermann(t / h), _gudermann((1 - t) / h)
        s = (t + h * torch.asinh(torch.tan(low + points * (high - low)))).clamp(0, 1)
        log_one = (weights * s.clamp(min=_TINY).log()).sum(1)
        log_zero = (weights * (1 - s).clamp(min=_TINY).log()).sum(1)
        return log_one.to(score.dtype), log_zero.to(score.dtype)

    def pairs(self, z: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Returns the pair term of the logits z [N] and the classes y [N]. Without near pairs it is 0."""
        h, one, zero = self.bandwidth, z[y == 1], z[y == 0]
        near = (torch.sigmoid(one)[:, None] - torch.sigmoid(zero)).abs() < 2 * h
        gaps = (one[:, None] - zero)[near]
        return functional.softplus(2 * h - gaps).mean() if len(gaps) else z.sum() * 0


def binary_logit(output: torch.Tensor) -> torch.Tensor:
    """Returns the logit of class 1 [N] from outputs [N], [N, 1] or [N, 2]."""
    if output.dim() == 1:
        return output
    if output.dim() == 2 and output.shape[1] == 1:
        return output[:, 0]
    if output.dim() == 2 and output.shape[1] == 2:
        return output[:, 1] - output[:, 0]
    raise ValueError(f"outputs of shape {tuple(output.shape)}: want one logit, or the logits of two classes")


def _gudermann(x: torch.Tensor) -> torch.Tensor:
    """Returns atan sinh x, without overflow."""
    return 2 * torch.atan(torch.tanh(x / 2))


@lru_cache(maxsize=8)
def _legendre(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the points and the weights of Gauss–Legendre quadrature on [0, 1]."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    return (points + 1) / 2, weights / 2
