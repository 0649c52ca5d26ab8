#!/usr/bin/env python3
"""Export the models of scripts/compare_providers.py: ResNet-20 and ResNet-110 for CIFAR-10, ResNet-50 and ViT-B/16.

The weights are random, because speed does not depend on them. The script writes each model as NAME.onnx into the folder
in its argument, with a free batch dimension. It skips models that are there already.
"""

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
import torchvision


class Block(nn.Module):
    """A residual block of He et al. 2015, section 4.2, with the parameter-free shortcut."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.stride, self.more = stride, outputs - inputs

    def forward(self, x):
        y = self.norm2(self.second(functional.relu(self.norm1(self.first(x)))))
        if self.more:
            x = functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.more))
        return functional.relu(x + y)


def cifar_resnet(depth):
    """Returns the ResNet for CIFAR-10 of He et al. 2015 with 6n + 2 layers. With depth 110 it is the base classifier of
    Cohen et al. 2019."""
    layers, width = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()], 16
    for stage, outputs in enumerate((16, 32, 64)):
        for block in range((depth - 2) // 6):
            layers.append(Block(width, outputs, 2 if stage and not block else 1))
            width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


MODELS = {
    "resnet20": (lambda: cifar_resnet(20), (3, 32, 32)),
    "resnet110": (lambda: cifar_resnet(110), (3, 32, 32)),
    "resnet50": (lambda: torchvision.models.resnet50(), (3, 224, 224)),
    "vit_b_16": (lambda: torchvision.models.vit_b_16(), (3, 224, 224)),
}


def build(name):
    """Returns the model in inference mode and the shape of its input. Every call gives the same weights."""
    torch.manual_seed(1)
    make, shape = MODELS[name]
    return make().eval(), shape


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        path = folder / f"{name}.onnx"
        if path.exists():
            continue
        model, shape = build(name)
        torch.onnx.export(model, torch.zeros(1, *shape), path, input_names=["input"], output_names=["logits"],
                          dynamic_axes={"input": {0: "batch"}, "logits": {0: "batch"}}, dynamo=False)


if __name__ == "__main__":
    main()
