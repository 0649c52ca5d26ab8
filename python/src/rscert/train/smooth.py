"""Averages of a model over noisy copies of each example."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import nn
from torch.nn import functional

# A batch holds the inputs [N, …] and the classes [N].
Batch = tuple[torch.Tensor, torch.Tensor]

# An objective takes the cross-entropy of the mean probabilities of the copies, or the mean cross-entropy of the copies.
Objective = Literal["ce-of-mean", "mean-of-ce"]

_TINY = 1e-20  # keeps logarithms of probabilities finite


def copies(x: torch.Tensor, count: int) -> torch.Tensor:
    """Returns ``count`` copies of each example, next to each other: [N·count, …]."""
    return x.repeat_interleave(count, 0)


def mean_probabilities(logits: torch.Tensor, count: int) -> torch.Tensor:
    """Returns the smoothed probabilities [N, K], which are the mean softmax over the copies of each example."""
    return functional.softmax(logits, 1).reshape(-1, count, logits.shape[1]).mean(1)


def cross_entropy(logits: torch.Tensor, y: torch.Tensor, count: int, objective: Objective) -> torch.Tensor:
    """Returns the loss of the logits [N·count, K] of noisy copies for the classes y [N]."""
    if objective == "mean-of-ce":
        return functional.cross_entropy(logits, y.repeat_interleave(count))
    if objective == "ce-of-mean":
        return functional.nll_loss(mean_probabilities(logits, count).clamp(min=_TINY).log(), y)
    raise ValueError(f"objective {objective!r}: want ce-of-mean or mean-of-ce")


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Puts the model into evaluation mode and computes no gradients of its weights, until the context ends."""
    modes = [(module, module.training) for module in model.modules()]
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    model.eval()
    for parameter in wanted:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in wanted:
            parameter.requires_grad_(True)
        for module, training in modes:
            module.training = training
