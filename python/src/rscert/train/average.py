"""The moving average of a model's weights."""

from __future__ import annotations

import copy

import torch
from torch import nn


class Average:
    """An exponential moving average of the floating-point weights and buffers of a model.

    After k updates, the decay is min(decay, (1 + k)/(10 + k)), so that the first weights are soon forgotten. Integer
    buffers, such as the counter of a batch normalisation, are copied.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.updates = 0
        self.model = copy.deepcopy(model).requires_grad_(False)

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Moves the average towards the model's present weights."""
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        self.updates += 1
        for mean, value in zip(self.model.state_dict().values(), model.state_dict().values(), strict=True):
            if mean.is_floating_point():
                mean.lerp_(value, 1 - decay)
            else:
                mean.copy_(value)
