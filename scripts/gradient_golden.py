#!/usr/bin/env python3
"""Makes small ONNX networks for the tests of internal/graph/grad. Also computes the gradients of their losses by
PyTorch's autograd in float64. The command 'make gradients' calls

    python scripts/gradient_golden.py internal/graph/grad/testdata
"""
import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

CLASSES = 5


class Residual(nn.Module):
    """A network like ResNet, with strided convolutions, normalisation, overlapping MaxPool and a shortcut."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 6, 5, 2, 2, bias=False), nn.BatchNorm2d(6)
        self.a, self.b, self.skip = nn.Conv2d(6, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 1, 1), nn.Conv2d(6, 8, 1, 2)
        self.pool, self.out = nn.MaxPool2d(3, 2, 1), nn.Linear(8, CLASSES)
        self.norm.running_mean.uniform_(-.5, .5), self.norm.running_var.uniform_(.5, 2)

    def forward(self, x):
        x = self.pool(torch.relu(self.norm(self.stem(x))))
        x = torch.relu(self.b(torch.relu(self.a(x))) + self.skip(x))
        return self.out(x.mean((2, 3)))


class Mobile(nn.Module):
    """A network like MobileNet, with depthwise convolutions, squeeze and excitation, and clipped activations."""

    def __init__(self):
        super().__init__()
        self.wide, self.deep = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 3, 2, 1, groups=8)
        self.grouped = nn.Conv2d(8, 8, 3, 1, 1, groups=2)
        self.down, self.up = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1)
        self.out = nn.Linear(8, CLASSES)

    def forward(self, x):
        x = F.hardswish(self.deep(F.relu6(3 * self.wide(x))))
        x = F.silu(self.grouped(x))
        s = torch.sigmoid(self.up(F.leaky_relu(self.down(F.adaptive_avg_pool2d(x, 1)), .1)))
        return self.out((x * s).flatten(2).amax(2))


class Attend(nn.Module):
    """A network like a vision transformer, with patches, layer normalisation, attention and GELU."""

    def __init__(self):
        super().__init__()
        self.patch, self.token = nn.Conv2d(3, 8, 2, 2), nn.Parameter(torch.randn(1, 1, 8))
        self.norm, self.qkv, self.mix = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)
        self.norm2, self.a, self.b, self.out = nn.LayerNorm(8), nn.Linear(8, 12), nn.Linear(12, 8), nn.Linear(8, CLASSES)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        q, k, v = self.qkv(self.norm(x)).reshape(x.shape[0], -1, 3, 2, 4).permute(2, 0, 3, 1, 4)
        y = torch.softmax(q @ k.transpose(-2, -1) / 2, -1) @ v
        x = x + self.mix(y.transpose(1, 2).flatten(2))
        x = x + self.b(F.gelu(self.a(self.norm2(x))))
        return self.out(x[:, 0])


class Shapes(nn.Module):
    """A network with interpolation, transposed convolutions, group and instance normalisation, padding and rolls."""

    def __init__(self):
        super().__init__()
        self.a, self.back = nn.Conv2d(3, 4, 3, 2), nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1)
        self.groups, self.instances = nn.GroupNorm(2, 6), nn.InstanceNorm2d(4, affine=True)
        self.prelu, self.out = nn.PReLU(6), nn.Linear(6 * 4, CLASSES)

    def forward(self, x):
        x = self.instances(self.a(F.pad(x, (1, 2, 0, 1), "reflect")))
        x = F.elu(self.prelu(self.groups(self.back(x))))
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        x = F.avg_pool2d(torch.roll(x, 1, 3), 3, 2, 1, count_include_pad=False)
        x = F.mish(F.interpolate(x, size=(3, 3), mode="nearest")) + F.softplus(x[:, :, ::2, ::2][:, :, :3, :3])
        return self.out(x[:, :, :2, 1:3].clamp(min=-1).flatten(1))


class Ties(nn.Module):
    """A network of MaxPool and ReLU. On a picture of equal blocks most windows have ties, and many values are exactly
    0."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(3 * 9 + 3 * 9, CLASSES)

    def forward(self, x):
        a, b = F.max_pool2d(x, 3, 2, 1)[:, :, :3, :3], F.max_pool2d(torch.relu(x - .5), 2, 2)[:, :, :3, :3]
        return self.out(torch.cat([a.flatten(1), b.flatten(1)], 1))


class Recurrent(nn.Module):
    """A network that passes the rows of a picture as a sequence through all kinds of recurrent layers. The output also
    uses the final state of the first layer."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.LSTM(24, 5, batch_first=True, bidirectional=True), nn.GRU(10, 4, 2, batch_first=True)
        self.c, self.out = nn.RNN(4, 3, batch_first=True, bidirectional=True), nn.Linear(6 + 5, CLASSES)

    def forward(self, x):
        y, (_, cell) = self.a(x.transpose(1, 2).flatten(2))
        y, _ = self.c(self.b(y)[0])
        return self.out(torch.cat([y.mean(1), cell[1]], 1))


class Selected(nn.Module):
    """A network with reads and writes at indices, and with products."""

    def __init__(self):
        super().__init__()
        self.a, self.out = nn.Conv2d(3, 4, 3, 2), nn.Linear(4 * 3 + 4 * 4, CLASSES)
        self.rows, self.columns = torch.tensor([0, 2, 2, 1]), torch.tensor([1, 0, 0, 2])

    def forward(self, x):
        x = torch.tanh(self.a(x))
        y = x.clone()
        y[:, :, 1, 0:2] = x[:, :, 0, 1:3] * .5
        order = x.argsort(3)
        y = y + torch.gather(x, 3, order) * torch.arange(3)
        return self.out(torch.cat([y.prod(3).flatten(1), y[:, :, self.rows, self.columns].flatten(1)], 1))


def cross_entropy(z, y):
    return F.cross_entropy(z, y, reduction="none")


def margin(z, y):
    own = F.one_hot(y, CLASSES).bool()
    return z.masked_fill(own, -torch.inf).amax(1) - z.gather(1, y[:, None])[:, 0]


def dlr(z, y):  # Croce and Hein's implementation
    ordered, order = z.sort(1)
    first = (order[:, -1] == y).to(z)
    own = z.gather(1, y[:, None])[:, 0]
    return -(own - ordered[:, -2] * first - ordered[:, -1] * (1 - first)) / (ordered[:, -1] - ordered[:, -3] + 1e-12)


LOSSES = {"ce": cross_entropy, "margin": margin, "dlr": dlr}


def flat(t):
    return [float(f"{v:.7g}") for v in t.detach().flatten().tolist()]


def case(net, loss, x, labels, noise=None, targeted=False):
    """Returns a loss and its gradient in float64. Noisy copies of an example share its label, and their mean softmax
    gives the loss."""
    net, x = net.double(), x.double().requires_grad_()
    inputs = x if noise is None else (x[:, None] + noise.double()).flatten(0, 1)
    z = logits = net(inputs)
    if noise is not None:
        logits = torch.softmax(z, 1).reshape(*noise.shape[:2], -1).mean(1).log()
    values = LOSSES[loss](logits, labels) * (-1 if targeted else 1)
    gradient, = torch.autograd.grad(values.sum(), x)
    return {"loss": loss, "targeted": targeted, "copies": 1 if noise is None else noise.shape[1],
            "noise": [] if noise is None else flat(noise), "scores": flat(z), "values": flat(values), "gradient": flat(gradient)}


def main(folder):
    models = []
    for name, kind, opset in (("residual", Residual, 17), ("mobile", Mobile, 17), ("attend", Attend, 17), ("shapes", Shapes, 17),
                              ("ties", Ties, 17), ("ties_13", Ties, 13), ("recurrent", Recurrent, 17), ("selected", Selected, 17)):
        torch.manual_seed(1)
        net = kind().eval()
        x, labels = torch.rand(2, 3, 8, 8).mul(256).round().div(256), torch.tensor([1, 3])  # values with few digits
        if kind is Ties:
            x = (4 * torch.rand(2, 3, 4, 4)).floor().div(4).repeat_interleave(2, 2).repeat_interleave(2, 3)
        if kind is Selected:  # rscert runs such models on one input per call
            x, labels = x[:1], labels[:1]
        torch.onnx.export(net, x, folder / f"{name}.onnx", input_names=["x"], output_names=["y"], opset_version=opset,
                          dynamic_axes={"x": {0: "n"}, "y": {0: "n"}}, dynamo=False)
        cases = [case(net, "margin", x, labels)]
        if kind is Residual:
            cases += [case(net, loss, x, labels) for loss in ("ce", "dlr")]
            cases.append(case(net, "ce", x, labels, targeted=True))
            noise = torch.randn(2, 3, 3, 8, 8).mul(16).round().div(64)
            cases += [case(net, loss, x, labels, noise=noise) for loss in ("ce", "margin")]
        models.append({"model": name, "labels": labels.tolist(), "x": flat(x), "cases": cases})
    lines = ",\n".join(json.dumps(m) for m in models)
    (folder / "golden.json").write_text(f'{{"torch": "{torch.__version__}", "models": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main(Path(sys.argv[1]))
