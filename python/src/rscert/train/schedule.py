"""Learning rates by epoch."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi


@dataclass(frozen=True)
class Cosine:
    """Grows the rate linearly over the first ``warmup`` epochs, then lowers it to 0 along a cosine."""

    warmup: float = 0.0

    def factor(self, epoch: float, epochs: int) -> float:
        """Returns the rate at a fractional epoch, as a share of the largest rate. The training has ``epochs``
        epochs."""
        if epoch < self.warmup:
            return epoch / self.warmup
        return 0.5 * (1 + cos(pi * (epoch - self.warmup) / max(epochs - self.warmup, 1e-9)))


@dataclass(frozen=True)
class Steps:
    """Multiplies the rate by ``factor_per_step`` after every ``every`` epochs."""

    every: int = 4
    factor_per_step: float = 0.1

    def factor(self, epoch: float, epochs: int) -> float:
        """Returns the rate at a fractional epoch, as a share of the first rate."""
        return float(self.factor_per_step ** (int(epoch) // self.every))


@dataclass(frozen=True)
class Constant:
    """Keeps the rate."""

    def factor(self, epoch: float, epochs: int) -> float:
        """Returns 1."""
        return 1.0


Schedule = Cosine | Steps | Constant
