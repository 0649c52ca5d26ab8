"""The binary program for the worst calibration error of a batch, solved by ADMM (Emde et al. 2025, appendices E and
F)."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt

import torch

_CLIP = 1.2  # how far a may leave the sphere of q₂ (appendix G.2)
_GREATEST_GRADIENT = 5.0  # of the assignment a, in absolute value (appendix G.2)
_GREATEST_PENALTY = 10.0  # where ρ stops growing (appendix G.2)


@dataclass(frozen=True)
class Penalties:
    """The parameters of ADMM. The paper tries the growth factors .01, .05, .1 and .5, and starts from .001 to .5."""

    start: float = 0.01  # the first ρ
    growth: float = 0.05  # each step multiplies ρ by 1 + growth
    rate: float = 0.01  # the step size of the assignment a


@dataclass
class Assignment:
    """The state of ADMM for N examples and M bins.

    a [N, M] assigns examples to bins, and ``blocked`` [N, M] is the K of the paper: the bins that an example cannot
    reach. q₁ keeps a within [0, 1], q₂ keeps it on the sphere around ½, λ₁ to λ₄ are the multipliers, and ρ is the
    penalty.
    """

    correct: torch.Tensor
    blocked: torch.Tensor
    a: torch.Tensor
    q1: torch.Tensor
    q2: torch.Tensor
    lambda1: torch.Tensor
    lambda2: torch.Tensor
    lambda3: torch.Tensor
    lambda4: torch.Tensor
    rho: float

    @classmethod
    def start(cls, correct: torch.Tensor, blocked: torch.Tensor, penalties: Penalties) -> Assignment:
        """Returns the first state: a = q₁ = q₂ = 1/M and λ = 0."""
        k = blocked.to(correct.dtype)
        a = torch.full_like(k, 1 / k.shape[1])
        zeros, per_example = torch.zeros_like(k), torch.zeros_like(correct)
        return cls(correct, k, a, a, a, zeros, zeros, per_example, per_example, penalties.start)

    def error(self, confidence: torch.Tensor) -> torch.Tensor:
        """Returns Σ_m |Σ_n (c_n − z_n)·a_nm|, which is N times the calibration error of a."""
        return error(confidence, self.correct, self.a)

    def step(self, confidence: torch.Tensor, penalties: Penalties) -> None:
        """Updates a, then q₁ and q₂, then the multipliers, for the confidences z [N] (formulas 28, 29 and 31)."""
        rho, a = self.rho, self.a
        gap = (self.correct - confidence)[:, None]
        unique = a.sum(1) - 1
        barred = (self.blocked * a).sum(1)
        gradient = -gap * (gap * a).sum(0).sign()
        gradient = gradient + self.lambda1 + rho * (a - self.q1) + self.lambda2 + rho * (a - self.q2)
        gradient = gradient + (self.lambda3 + rho * unique)[:, None]
        gradient = gradient + self.blocked * (self.lambda4 + rho * barred)[:, None]
        a = a - penalties.rate * gradient.clamp(-_GREATEST_GRADIENT, _GREATEST_GRADIENT)
        reach = _CLIP * float((self.q2 - 0.5).abs().max())
        a = a.clamp(0.5 - reach, 0.5 + reach)
        self.a = a
        self.q1 = (self.lambda1 / rho + a).clamp(0, 1)
        away = self.lambda2 / rho + a - 0.5
        self.q2 = 0.5 + sqrt(a.numel()) / 2 * away / away.norm().clamp(min=1e-12)
        self.lambda1 = self.lambda1 + rho * (a - self.q1)
        self.lambda2 = self.lambda2 + rho * (a - self.q2)
        self.lambda3 = self.lambda3 + rho * (a.sum(1) - 1)
        self.lambda4 = self.lambda4 + rho * (self.blocked * a).sum(1)
        self.rho = min(rho * (1 + penalties.growth), max(_GREATEST_PENALTY, penalties.start))

    def projected(self) -> torch.Tensor:
        """Returns the binary assignment [N, M] to the reachable bin with the largest a."""
        best = (self.a - self.blocked * 1e9).argmax(1)
        return torch.nn.functional.one_hot(best, self.a.shape[1]).to(self.a.dtype)


def error(confidence: torch.Tensor, correct: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """Returns Σ_m |Σ_n (c_n − z_n)·a_nm|."""
    return ((correct - confidence)[:, None] * a).sum(0).abs().sum()


def blocked_bins(lower: torch.Tensor, upper: torch.Tensor, bins: int) -> torch.Tensor:
    """Returns truth values [N, M]: whether no confidence of the interval n from ``lower`` to ``upper`` [N] lies in the
    equal-width bin m, [m/M, (m+1)/M]."""
    edges = torch.arange(bins + 1, dtype=lower.dtype, device=lower.device) / bins
    low, high = torch.maximum(lower[:, None], edges[:-1]), torch.minimum(upper[:, None], edges[1:])
    # An interval that has only one point in common with a bin does not reach the bin, as in the paper. But a single
    # confidence reaches its own bin.
    return (low > high) | ((low == high) & (lower < upper)[:, None])


def standard_bounds(
    confidence: torch.Tensor, radius: float, sigma: float, samples: int, alpha: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns bounds on the smoothed confidence under perturbations within the L2 radius (Kumar et al. 2020, standard).

    The bounds are Φ(Φ⁻¹(z̲) − R/σ) and Φ(Φ⁻¹(z̄) + R/σ), where z̲ and z̄ are Hoeffding's bounds at level alpha/2 each.
    With alpha = None, z̲ = z̄ = z. This is for few samples, with which Hoeffding's bounds exclude no bin. Confidences
    of 1 count as 1 − 1e-6.
    """
    confidence = confidence.clamp(1e-6, 1 - 1e-6)
    slack = 0.0 if alpha is None else sqrt(log(2 / alpha) / (2 * samples))
    shift = radius / sigma
    low, high = (confidence - slack).clamp(0, 1), (confidence + slack).clamp(0, 1)
    normal = torch.special.ndtri
    return torch.special.ndtr(normal(low) - shift), torch.special.ndtr(normal(high) + shift)
