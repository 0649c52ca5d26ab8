#!/usr/bin/env python3
"""Makes resnet20.onnx, resnet110.onnx (CIFAR-10) and resnet50.onnx (ImageNet) with random weights, for 'make
bench-sampling'. Their answers mean nothing, but they take as long as the real models. The script needs only PyTorch.

    python bench_models.py FOLDER [NAME…]     # also vit_b_16
"""
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """A residual block: convolutions (channels, kernel, stride), each with batch normalisation, and a shortcut around
    them."""

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


class Encoder(nn.Module):
    """A block of a vision transformer (Dosovitskiy et al. 2021): attention and a perceptron, each normalised first."""

    def __init__(self, width, heads, tokens):
        super().__init__()
        self.sizes = tokens, 3, heads, width // heads  # Python numbers: tensor sizes would become nodes of the graph
        self.before, self.between = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        tokens, _, heads, depth = self.sizes
        q, k, v = self.qkv(self.before(x)).reshape(-1, *self.sizes).permute(2, 0, 3, 1, 4).unbind()
        mixed = functional.scaled_dot_product_attention(q, k, v, scale=depth**-0.5)
        x = x + self.project(mixed.transpose(1, 2).reshape(-1, tokens, heads * depth))
        return x + self.perceptron(self.between(x))


class ViT(nn.Module):
    """ViT-B/16 for 224 × 224."""

    def __init__(self, width=768, depth=12, heads=12, patch=16, side=224, classes=1000):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        tokens = 1 + (side // patch) ** 2
        self.sizes = width, tokens - 1
        self.places = nn.Parameter(0.02 * torch.randn(1, tokens, width))
        self.blocks = nn.Sequential(*(Encoder(width, heads, tokens) for _ in range(depth)), nn.LayerNorm(width, 1e-6))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).reshape(-1, *self.sizes).transpose(1, 2)
        x = torch.cat([self.first + 0 * x[:, :1], x], 1)  # one token per sample, without using the batch size
        return self.head(self.blocks(x + self.places)[:, 0])


# Each entry has the model's constructor and the shape of its inputs.
MODELS = {
    "resnet20": (lambda: cifar_resnet(20), (3, 32, 32)),
    "resnet110": (lambda: cifar_resnet(110), (3, 32, 32)),
    "resnet50": (resnet50, (3, 224, 224)),
    "vit_b_16": (ViT, (3, 224, 224)),
}


def build(name):
    """Returns the model in inference mode and the shape of its inputs. Every call gives the same weights."""
    torch.manual_seed(1)
    make, shape = MODELS[name]
    return make().eval(), shape


def export(model, shape, path):
    """Writes the model with a free batch dimension."""
    like = next(iter(model.parameters()), torch.zeros(1))
    torch.onnx.export(
        model, torch.zeros(1, *shape, device=like.device), path, dynamo=False, opset_version=17,
        input_names=["x"], output_names=["logits"], dynamic_axes={"x": {0: "N"}, "logits": {0: "N"}},
    )


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or ("resnet20", "resnet110", "resnet50"):
        export(*build(name), folder / f"{name}.onnx")


if __name__ == "__main__":
    main()
