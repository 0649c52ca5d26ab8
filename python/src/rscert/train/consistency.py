"""Training with a consistency term (Jeong & Shin 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from rscert.train.noise import Noise
from rscert.train.smooth import Batch, copies, mean_probabilities


@dataclass(frozen=True)
class Consistency:
    """The mean cross-entropy of m noisy copies, plus a term that makes the copies of an example agree.

    With the probabilities p₁, …, p_m of the copies and their mean p̄, the term is

        weight · (1/m) Σᵢ KL(p̄ ‖ pᵢ) + entropy_weight · H(p̄).

    The paper uses m = 2, a weight of 5 to 20, and an entropy weight of 0.5.
    """

    noise: Noise
    samples: int = 2
    weight: float = 10.0
    entropy_weight: float = 0.5

    def __call__(self, model: nn.Module, batch: Batch, generator: torch.Generator | None = None) -> torch.Tensor:
        x, y = batch
        logits = model(self.noise.add(copies(x, self.samples), generator))
        entropy = functional.cross_entropy(logits, y.repeat_interleave(self.samples))
        return entropy + self.term(logits)

    def term(self, logits: torch.Tensor) -> torch.Tensor:
        """Returns the consistency term of the logits [N·m, K]."""
        mean = mean_probabilities(logits, self.samples)
        log_mean = mean.clamp(min=1e-20).log()
        log_copies = functional.log_softmax(logits, 1).reshape(-1, self.samples, logits.shape[1]).mean(1)
        divergence = (mean * (log_mean - log_copies)).sum(1).mean()
        entropy = -(mean * log_mean).sum(1).mean()
        return self.weight * divergence + self.entropy_weight * entropy
