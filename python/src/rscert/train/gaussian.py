"""Training with noise (Cohen, Rosenfeld & Kolter 2019)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from rscert.train.noise import Noise
from rscert.train.smooth import Batch


@dataclass(frozen=True)
class GaussianAugmentation:
    """The cross-entropy on noisy inputs. The noise may have any law; Gaussian noise gives the paper's method."""

    noise: Noise

    def __call__(self, model: nn.Module, batch: Batch, generator: torch.Generator | None = None) -> torch.Tensor:
        x, y = batch
        return functional.cross_entropy(model(self.noise.add(x, generator)), y)
