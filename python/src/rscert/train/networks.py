"""Small networks for images."""

from __future__ import annotations

import torch
from torch import nn


class Standardise(nn.Module):
    """Maps inputs x to (x − mean)/std, with one mean and one standard deviation for each channel."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, mean: list[float], std: list[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).reshape(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std).reshape(-1, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.mean) / self.std


def digits_cnn(channels: int = 1, classes: int = 10) -> nn.Sequential:
    """Returns the network of the bundled digits, for inputs [N, channels, 28, 28]: 98,000 weights with one channel."""
    return nn.Sequential(
        nn.Conv2d(channels, 16, 5, 2, 2), nn.ReLU(),
        nn.Conv2d(16, 32, 5, 2, 2), nn.ReLU(),
        nn.Conv2d(32, 32, 3, 1, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(7 * 7 * 32, 48), nn.ReLU(), nn.Linear(48, classes),
    )  # fmt: skip


class _Residual(nn.Module):
    """Two convolutions beside a shortcut. If the shape changes, the shortcut drops pixels and pads channels with 0."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.stride, self.more = stride, outputs - inputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        short = nn.functional.avg_pool2d(x, 1, self.stride)  # drops pixels
        short = nn.functional.pad(short, (0, 0, 0, 0, self.more // 2, self.more - self.more // 2))
        return torch.relu(self.branch(x) + short)


def resnet(depth: int = 20, channels: int = 3, classes: int = 10) -> nn.Sequential:
    """Returns the ResNet of He et al. 2016 for small images, of depth 6n + 2: 20, 32, 44, 56 or 110."""
    if depth < 8 or (depth - 2) % 6:
        raise ValueError(f"depth {depth}: want 6n + 2 for a whole number n ≥ 1")
    blocks: list[nn.Module] = []
    width = 16
    for stage, outputs in enumerate((16, 32, 64)):
        for block in range((depth - 2) // 6):
            blocks.append(_Residual(width, outputs, 2 if stage > 0 and block == 0 else 1))
            width = outputs
    first = [nn.Conv2d(channels, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))
