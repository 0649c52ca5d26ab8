#!/usr/bin/env python3
"""Compares the time of gradients in rscert and PyTorch and prints a table of docs/benchmarks.md: 'make
bench-gradients'.

    python bench_gradients.py --gradients out/gradients [--rounds 40] [--eager] [NAME …]

The gradient is that of the cross-entropy with respect to the input. The weights are constants. The programs take turns,
each on one thread. The table shows the shortest time of each program, because other work on the machine can only make a
time longer.
"""
import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import onnx
import torch
from torch import nn

import bench_models

ROOT = Path(__file__).resolve().parent.parent
MODELS = {"mnist-cnn": 64, "resnet20": 64, "resnet50": 8, "vit_b_16": 8}  # the batch size of each model
LABELS = {"mnist-cnn": "bundled CNN", "resnet20": "ResNet-20", "resnet50": "ResNet-50", "vit_b_16": "ViT-B/16"}


def bundled():
    """Returns the bundled CNN in PyTorch."""
    model = nn.Sequential(nn.Conv2d(1, 16, 5, 2, 2), nn.ReLU(), nn.Conv2d(16, 32, 5, 2, 2), nn.ReLU(), nn.Conv2d(32, 32, 3, 1, 1),
                          nn.ReLU(), nn.Flatten(), nn.Linear(32 * 49, 48), nn.ReLU(), nn.Linear(48, 10))
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(ROOT / "testdata/mnist-cnn.onnx").graph.initializer}
    with torch.no_grad():
        for layer, name in zip([m for m in model if hasattr(m, "weight")], ["conv1", "conv2", "conv3", "dense1", "dense2"], strict=True):
            layer.weight.copy_(torch.tensor(stored[f"{name}.weight"]))
            layer.bias.copy_(torch.tensor(stored[f"{name}.bias"]))
    return model.eval(), (1, 28, 28)


def network(name, folder):
    """Returns the model in PyTorch, the shape of its inputs and its file."""
    if name == "mnist-cnn":
        return *bundled(), ROOT / "testdata/mnist-cnn.onnx"
    model, shape = bench_models.build(name)
    path = folder / f"{name}.onnx"
    bench_models.export(model, shape, path)
    return model, shape, path


class Server:
    """The program scripts/gradients."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            sys.exit(answer["error"])
        return answer


def timed(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def contenders(server, model, x, labels, compiled):
    """Returns a function for each program, by name. The function runs the program once and returns the time."""
    server.ask(run="gradient", x=x.ravel().tolist(), labels=labels.tolist(), quiet=True)  # keeps the examples
    for p in model.parameters():
        p.requires_grad_(False)

    def forward_of(net):
        def run():
            with torch.no_grad():
                net(x)
        return lambda: timed(run)

    def gradient_of(net):
        def run():
            leaf = x.detach().requires_grad_()
            torch.autograd.grad(nn.functional.cross_entropy(net(leaf), labels, reduction="sum"), leaf)
        return lambda: timed(run)
    found = {
        ("rscert", "forward"): lambda: server.ask(run="forward", quiet=True)["seconds"],
        ("rscert", "both"): lambda: server.ask(run="gradient", quiet=True)["seconds"],
        ("eager", "forward"): forward_of(model), ("eager", "both"): gradient_of(model),
    }
    if compiled:
        fast = torch.compile(model)
        found["compiled", "forward"], found["compiled", "both"] = forward_of(fast), gradient_of(fast)
    return found


def measure(server, name, folder, a):
    model, shape, path = network(name, folder)
    rows = MODELS[name]
    torch.manual_seed(2)
    x, labels = torch.rand(rows, *shape), torch.arange(rows) % 10
    server.ask(open=str(path), loss="ce", examples=rows)
    runs = contenders(server, model, x, labels, not a.eager)
    for run in runs.values():  # the first call compiles the model and reserves memory
        run()
    best = {}
    for _ in range(a.rounds if rows == 64 else max(3, a.rounds // 8)):
        for key, run in runs.items():
            best[key] = min(best.get(key, float("inf")), run())
    return best


def cell(best, program, base):
    if (program, "both") not in best:
        return "–"
    return f"{best[program, 'both'] / base:.1f} ({best[program, 'both'] / best[program, 'forward']:.1f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gradients", required=True, help="the program built from scripts/gradients")
    parser.add_argument("--rounds", type=int, default=40, help="number of rounds; the large models take an eighth of it")
    parser.add_argument("--eager", action="store_true", help="leave out torch.compile")
    parser.add_argument("names", nargs="*", default=list(MODELS))
    a = parser.parse_args()
    torch.set_num_threads(1)
    server, lines, loads = Server(a.gradients), [], [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory() as folder:
        for name in a.names or MODELS:
            best = measure(server, name, Path(folder), a)
            print(name, {f"{p} {k}": round(1e3 * s, 2) for (p, k), s in best.items()}, file=sys.stderr, flush=True)
            base = best["rscert", "forward"]
            lines.append(f"| {LABELS[name]}, batch {MODELS[name]} | {1e3 * base:.1f} ms |"
                         f" {' | '.join(cell(best, p, base) for p in ('rscert', 'eager', 'compiled'))} |")
            loads.append(os.getloadavg()[0])
    print("<!-- made: gradient-speed -->")
    print(f"Each time is the shortest of {a.rounds} rounds ({max(3, a.rounds // 8)} for the large models), measured on"
          f" {datetime.date.today():%-d %B %Y} with PyTorch {torch.__version__}. Each program used one thread. The load average"
          f" was {min(loads):.0f} to {max(loads):.0f} on {os.cpu_count()} cores:\n")
    print("| model | ONNX Runtime, forward | rscert | PyTorch eager | PyTorch compiled |\n| --- | ---: | ---: | ---: | ---: |")
    print("\n".join(lines))
    print("<!-- end: gradient-speed -->")


if __name__ == "__main__":
    main()
