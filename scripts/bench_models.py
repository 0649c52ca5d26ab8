#!/usr/bin/env python3
"""Makes resnet20.onnx, resnet110.onnx (CIFAR-10) and resnet50.onnx (ImageNet) with random weights, for 'make bench-sampling':
their answers mean nothing, their running time is that of the real ones.

    python bench_models.py FOLDER
"""
import sys
from pathlib import Path

import torch
from torch import nn


class Block(nn.Module):
    """Convolutions of the given (channels, kernel, stride), each with normalisation, around which the input is carried."""

    def __init__(self, channels, layers):
        super().__init__()
        body, inside, stride = [], channels, 1
        for i, (out, kernel, step) in enumerate(layers):
            body += [nn.Conv2d(inside, out, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(out)]
            if i + 1 < len(layers):
                body.append(nn.ReLU())
            inside, stride = out, stride * step
        self.body = nn.Sequential(*body)
        self.carry = nn.Identity()
        if inside != channels or stride > 1:
            self.carry = nn.Sequential(nn.Conv2d(channels, inside, 1, stride, bias=False), nn.BatchNorm2d(inside))

    def forward(self, x):
        return torch.relu(self.body(x) + self.carry(x))


def cifar_resnet(depth):
    layers, channels = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()], 16
    for width in (16, 32, 64):
        for _ in range((depth - 2) // 6):
            layers.append(Block(channels, [(width, 3, width // channels), (width, 3, 1)]))
            channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(blocks):
            layers.append(Block(channels, [(width, 1, 1), (width, 3, 2 if i == 0 and width > 64 else 1), (4 * width, 1, 1)]))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def main():
    torch.manual_seed(1)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, model, side in (("resnet20", cifar_resnet(20), 32), ("resnet110", cifar_resnet(110), 32), ("resnet50", resnet50(), 224)):
        torch.onnx.export(
            model.eval(), torch.zeros(1, 3, side, side), folder / f"{name}.onnx", dynamo=False,
            input_names=["x"], output_names=["logits"], dynamic_axes={"x": {0: "N"}, "logits": {0: "N"}},
        )


if __name__ == "__main__":
    main()
