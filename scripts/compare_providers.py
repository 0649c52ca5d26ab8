#!/usr/bin/env python3
"""Compares the samples per second of rscert's providers and precisions, ONNX Runtime, OpenVINO and PyTorch; see
compare_providers.sh.

Each contestant is a separate process with two threads. They take turns, and the table compares medians over the rounds:

  rscert    internal/onnx (BenchmarkProvider): two workers, its own choice of batch
  ort       ONNX Runtime from Python: one session, one thread per call, two Python threads, the same batch and options
  openvino  OpenVINO's own Python API: an asynchronous queue with two streams of one thread, the same batch
  torch     the loop of Cohen et al. 2019: Gaussian noise in batches of 100, the model, arg max, counts; bf16 by autocast
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHAPES = {"mnist-cnn": (1, 28, 28), "resnet20": (3, 32, 32), "resnet110": (3, 32, 32), "resnet50": (3, 224, 224), "vit_b_16": (3, 224, 224)}
CONTESTANTS = ["rscert cpu f32", "rscert openvino f32", "rscert openvino bf16", "ort cpu f32", "ort openvino f32", "ort openvino bf16",
               "openvino - f32", "openvino - bf16", "torch - f32", "torch - bf16"]


def timed(call, threads, seconds, batch):
    """Returns the samples per second of calls from several threads at once."""
    call(), call()
    counts, start = [0] * threads, time.perf_counter()

    def work(i):
        while time.perf_counter() - start < seconds:
            call()
            counts[i] += batch

    workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    return sum(counts) / (time.perf_counter() - start)


def run_ort(name, path, device, precision, batch, seconds):
    import numpy as np
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    if device == "openvino":
        config = {"CPU": {"INFERENCE_PRECISION_HINT": precision, "NUM_STREAMS": "2", "INFERENCE_NUM_THREADS": "2"}}
        providers = [("OpenVINOExecutionProvider", {"device_type": "CPU", "load_config": json.dumps(config), "num_of_threads": "2"})]
        options.add_free_dimension_override_by_name("batch", batch)
        options.add_free_dimension_override_by_name("N", batch)
    session = ort.InferenceSession(str(path), options, providers=providers)
    x = {session.get_inputs()[0].name: np.random.default_rng(1).random((batch, *SHAPES[name]), np.float32)}
    return timed(lambda: session.run(None, x), 2, seconds, batch)


def run_openvino(name, path, precision, batch, seconds):
    import numpy as np
    import openvino as ov

    core = ov.Core()
    model = core.read_model(path)
    model.reshape([batch, *SHAPES[name]])
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": precision, "NUM_STREAMS": "2", "INFERENCE_NUM_THREADS": "2"})
    queue = ov.AsyncInferQueue(compiled, 2)
    x, count = np.random.default_rng(1).random((batch, *SHAPES[name]), np.float32), 0
    queue.start_async({0: x})
    queue.wait_all()
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        queue.start_async({0: x})
        count += batch
    queue.wait_all()
    return count / (time.perf_counter() - start)


def bundled(path):
    """Returns a CNN in PyTorch with the shapes of the bundled CNN."""
    from torch import nn

    return nn.Sequential(nn.Conv2d(1, 16, 5, 2, 2), nn.ReLU(), nn.Conv2d(16, 32, 5, 2, 2), nn.ReLU(), nn.Conv2d(32, 32, 3, 1, 1), nn.ReLU(),
                         nn.Flatten(), nn.Linear(1568, 48), nn.ReLU(), nn.Linear(48, 10)).eval()


def run_torch(name, path, precision, seconds, batch=100):
    import torch

    from export_models import build

    torch.set_num_threads(2)
    model = bundled(path) if name == "mnist-cnn" else build(name)[0]
    x, classes = torch.rand(SHAPES[name]), 1000 if SHAPES[name][1] == 224 else 10
    counts = torch.zeros(classes, dtype=torch.long)

    def call():
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            many = x.repeat((batch, 1, 1, 1))
            counts.add_(torch.bincount(model(many + torch.randn_like(many) * 0.25).argmax(1), minlength=classes))

    return timed(call, 1, seconds, batch)


def run_rscert(folder, path, device, precision, seconds):
    environment = dict(os.environ, RSCERT_BENCH_MODEL=str(path), RSCERT_BENCH_DEVICE=device, RSCERT_BENCH_PRECISION=precision)
    command = [str(folder / "onnx.test"), "-test.run", "^$", "-test.bench", "BenchmarkProvider$", "-test.benchtime", f"{seconds}s"]
    out = subprocess.run(command, env=environment, cwd=ROOT / "internal/onnx", check=True, capture_output=True, text=True).stdout
    words = next(line for line in out.splitlines() if "samples/s" in line).split()
    return float(words[words.index("samples/s") - 1]), int(float(words[words.index("batch") - 1]))


def contest(args, name, contestant, batch):
    who, device, precision = contestant.split()
    path = args.folder / "models" / f"{name}.onnx"
    if who == "rscert":
        return run_rscert(args.folder, path, device, precision, args.seconds)
    python = args.folder / ("openvino" if who == "ort" and device == "openvino" else "torch") / "bin/python"
    command = [str(python), __file__, "--folder", str(args.folder), "--seconds", str(args.seconds), "--one", f"{name} {contestant} {batch}"]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1]), batch


def one(args):
    name, who, device, precision, batch = args.one.split()
    path, batch = args.folder / "models" / f"{name}.onnx", int(batch)
    if who == "ort":
        print(run_ort(name, path, device, precision, batch, args.seconds))
    elif who == "openvino":
        print(run_openvino(name, path, precision, batch, args.seconds))
    else:
        print(run_torch(name, path, precision, args.seconds))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--models", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        return one(args)
    print(f"| model | {' | '.join(c.replace(' -', '') for c in CONTESTANTS)} |\n| --- |{' ---: |' * len(CONTESTANTS)}", flush=True)
    for name in args.models:
        rates, batches = {c: [] for c in CONTESTANTS}, {}
        for _ in range(args.rounds):
            for c in CONTESTANTS:
                _, device, precision = c.split()
                batch = batches.get(f"rscert {device} {precision}", batches.get(f"rscert openvino {precision}", 16))
                try:
                    rate, batches[c] = contest(args, name, c, batch)
                    rates[c].append(rate)
                except (subprocess.CalledProcessError, StopIteration) as error:
                    print(f"{name}: {c}: {error}", file=sys.stderr)
        print(f"| {name} | " + " | ".join(f"{statistics.median(r):,.0f}" if r else "failed" for r in rates.values()) + " |", flush=True)


if __name__ == "__main__":
    main()
