#!/usr/bin/env python3
"""The parts of scripts/gpu_check.py that need PyTorch; each command prints lines of JSON.

    python gpu_torch.py about
    python gpu_torch.py export FOLDER NAME… --device cuda    NAME.onnx of bench_models.py and NAME-f16.onnx
    python gpu_torch.py checksum FILE C H W                  a model that gives every noisy input a class by all its bits
    python gpu_torch.py loop NAME --device cuda --batch 256  the loop of Cohen et al. 2019, one line per way (WAYS)
"""

import argparse
import json
import time
from pathlib import Path

import torch
from torch import nn

from bench_models import MODELS, build, export


def balance(model, shape, device, sigma=0.5, batch=32):
    """Balances the classes of a random model. The normalisations get the statistics of noisy inputs, and the last layer
    gets a bias that cancels its mean output. Otherwise all noisy inputs would get the same class, and no two runs could
    differ."""
    x = (torch.rand(1, *shape, device=device) + sigma * torch.randn(batch, *shape, device=device))
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # the mean over batches
    with torch.no_grad():
        model.train()
        model(x)
        model.eval()
        logits = model(x)
        last = [m for m in model.modules() if isinstance(m, nn.Linear)][-1]
        last.bias -= logits.mean(0)
        last.bias /= logits.std()
        last.weight /= logits.std()
    return model


class Half(nn.Module):
    """The model in float16, with casts of its input and output."""

    def __init__(self, model):
        super().__init__()
        self.model = model.half()

    def forward(self, x):
        return self.model(x.half()).float()


class Checksum(nn.Module):
    """Maps an input with the values kᵢ/255, for integers kᵢ, to the class (Σ wᵢ·(kᵢ mod 16)) mod 10. The weights wᵢ are
    from 1 to 3. Every float inside is a whole number below 2²⁴, so all processors agree in any order of addition. A
    change of one value usually changes the class, so equal votes mean equal noise, bit for bit. It is a checksum, not a
    useful classifier."""

    def __init__(self, shape):
        super().__init__()
        size = shape[0] * shape[1] * shape[2]
        assert size * 15 * 3 < 1 << 24
        self.register_buffer("weights", (torch.arange(size) * 7 % 3 + 1.0).reshape(size, 1))
        self.register_buffer("classes", torch.arange(10.0).reshape(1, 10))

    def forward(self, x):
        k = torch.round(x * 255.0).flatten(1)
        total = (k - 16.0 * torch.floor(k / 16.0)) @ self.weights
        return -torch.abs(total - 10.0 * torch.floor(total / 10.0) - self.classes)


# The ways to run the loop. Each has two settings: whether TF32 is on, and whether torch.compile is used.
WAYS = {"eager": (False, False), "eager TF32": (True, False), "compile": (False, True), "compile TF32": (True, True)}


def run_export(args):
    for name in args.names:
        model, shape = build(name)
        model = balance(model.to(args.device), shape, args.device)
        export(model, shape, args.folder / f"{name}.onnx")
        export(Half(model).eval(), shape, args.folder / f"{name}-f16.onnx")
        say({"name": name})


def run_loop(args):
    for way in WAYS:
        try:
            say({"way": way, **time_loop(args, *WAYS[way])})
        except Exception as error:  # torch.compile may lack its compiler
            say({"way": way, "error": f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"})


def time_loop(args, tf32, compiled):
    """Returns the samples per second of a loop that repeats the input, adds normal noise, runs the model and counts the
    largest logits."""
    device = torch.device(args.device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    model, shape = build(args.name)
    model = model.to(device)
    if compiled:
        torch.compiler.reset()
        model = torch.compile(model)
    x = torch.rand(shape, device=device)
    counts = torch.zeros(1000 if shape[1] == 224 else 10, dtype=torch.long, device=device)

    def call():
        batch = x.repeat((args.batch, 1, 1, 1))
        noise = torch.randn_like(batch) * 0.5
        counts.add_(torch.bincount(model(batch + noise).argmax(1), minlength=len(counts)))

    def wait():
        if device.type == "cuda":
            torch.cuda.synchronize()

    with torch.inference_mode():
        started = time.perf_counter()
        for _ in range(3):
            call()
        wait()
        ready, calls, began = time.perf_counter() - started, 0, time.perf_counter()
        while time.perf_counter() - began < args.seconds:
            # On a GPU, the loop waits for the queue only after every fourth call.
            for _ in range(4 if device.type == "cuda" else 1):
                call()
                calls += 1
            wait()
    return {"samples_per_second": calls * args.batch / (time.perf_counter() - began), "batch": args.batch, "ready_seconds": ready}


def say(found):
    print(json.dumps(found), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("about")
    exporting = commands.add_parser("export")
    exporting.add_argument("folder", type=Path)
    exporting.add_argument("names", nargs="+", choices=list(MODELS))
    checksum = commands.add_parser("checksum")
    checksum.add_argument("file", type=Path)
    checksum.add_argument("shape", type=int, nargs=3)
    loop = commands.add_parser("loop")
    loop.add_argument("name", choices=list(MODELS))
    loop.add_argument("--batch", type=int, required=True)
    loop.add_argument("--seconds", type=float, default=3)
    for command in (exporting, loop):
        command.add_argument("--device", default="cuda")
    args = parser.parse_args()
    if args.command == "about":
        cuda = torch.cuda.is_available()
        say({"torch": torch.__version__, "cuda": torch.version.cuda if cuda else None, "gpu": torch.cuda.get_device_name() if cuda else None})
    elif args.command == "export":
        run_export(args)
    elif args.command == "checksum":
        export(Checksum(args.shape).eval(), args.shape, args.file)
        say({"file": str(args.file)})
    else:
        run_loop(args)


if __name__ == "__main__":
    main()
