#!/usr/bin/env python3
"""Compares the throughput of rscert with a plain Python loop on the same models, data and machine; see 'make compare'.

The Python side samples as the scripts of Cohen et al. do, but with ONNX Runtime instead of PyTorch. For each example,
numpy draws float32 Gaussian noise in batches of 1,000, ONNX Runtime runs the model, and bincount counts the votes. Both
sides use the same version of ONNX Runtime and the same number of threads. Both draw n0 + n samples per example. They
take turns, and the script compares the medians over the rounds.

The comparison favours Python. The time of rscert covers the whole process: start, reading model and data, computing
bounds and writing the run folder. The time of Python covers only the loop. The model is already loaded, the data are in
memory, and no bounds are computed.
"""

import argparse
import gzip
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data"


@dataclass
class Case:
    name: str
    model: Path
    data: Path
    flags: list  # rscert's flags to read the data
    sigma: float
    examples: int
    n: int
    images: np.ndarray  # [examples, …] as the model takes them


def cases():
    with gzip.open(ROOT / "testdata/mnist/t10k-images-idx3-ubyte.gz") as file:
        digits = np.frombuffer(file.read()[16:], np.uint8).reshape(-1, 1, 28, 28) / np.float32(255)
    yield Case("MNIST CNN (bundled)", ROOT / "testdata/mnist-cnn.onnx", ROOT / "testdata/mnist", [], 0.5, 50, 10_000, digits)
    resnet, images = SHARED / "vnncomp2021/cifar10_resnet_2b.onnx", SHARED / "eran/cifar10_test.csv"
    if resnet.exists() and images.exists():
        rows = np.loadtxt(images, delimiter=",", dtype=np.float32)[:, 1:] / np.float32(255)
        pictures = np.ascontiguousarray(rows.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2))
        yield Case("CIFAR-10 ResNet (VNN-COMP 2021)", resnet, images, ["--layout", "hwc"], 0.25, 4, 5_000, pictures)
    else:
        print(f"no CIFAR-10 ResNet: {resnet} is not there")


def batched(path):
    """Returns the model with a free batch dimension instead of 1. If a free batch dimension would change the results,
    returns the model unchanged."""
    model = onnx.load(path)
    original = model.SerializeToString()
    if model.graph.input[-1].type.tensor_type.shape.dim[0].dim_value != 1:
        return original, 1000
    targets = {node.input[1] for node in model.graph.node if node.op_type == "Reshape"}
    constants = [(node.output[0], node.attribute[0].t) for node in model.graph.node if node.op_type == "Constant"]
    constants += [(tensor.name, tensor) for tensor in model.graph.initializer]
    for name, tensor in constants:
        shape = numpy_helper.to_array(tensor).copy()
        if name in targets and shape.size and shape[0] == 1:
            # A shape may have only one -1, and the batch dimension takes it. So a -1 elsewhere, from flattening,
            # becomes a number.
            shape = np.array([0, -1]) if -1 in shape else np.concatenate([[-1], shape[1:]])
            tensor.CopyFrom(numpy_helper.from_array(shape.astype(np.int64), tensor.name))
    for value in [*model.graph.input, *model.graph.output]:
        if value.type.tensor_type.shape.dim:
            value.type.tensor_type.shape.dim[0].dim_param = "N"
    del model.graph.value_info[:]
    edited = model.SerializeToString()
    try:
        one, many = ort.InferenceSession(original), ort.InferenceSession(edited)
        feed = one.get_inputs()[0]
        x = np.random.default_rng(0).random((4, *feed.shape[1:]), np.float32)
        want = np.concatenate([one.run(None, {feed.name: x[i : i + 1]})[0] for i in range(4)])
        if np.allclose(many.run(None, {feed.name: x})[0], want, rtol=1e-4, atol=1e-4):
            return edited, 1000
    except Exception as error:  # ONNX Runtime raises its own exception classes
        print(f"{path.name} cannot be re-batched: {error}")
    return original, 1


class Loop:
    """The Python side."""

    def __init__(self, case, threads):
        model, self.batch = batched(case.model)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        feed = self.session.get_inputs()[0]
        self.name, self.shape = feed.name, feed.shape[1:]
        self.case, self.rng = case, np.random.default_rng(1)

    def votes(self, x, count):
        counts = np.zeros(10, np.int64)
        for start in range(0, count, self.batch):
            size = min(self.batch, count - start)
            noise = self.rng.standard_normal((size, *self.shape), np.float32)
            noise *= np.float32(self.case.sigma)
            noise += x
            counts += np.bincount(self.session.run(None, {self.name: noise})[0].argmax(1), minlength=10)
        return counts

    def seconds(self, n0):
        start = time.perf_counter()
        for x in self.case.images[: self.case.examples]:
            x = x.reshape(self.shape)
            self.votes(x, n0)
            self.votes(x, self.case.n)
        return time.perf_counter() - start


def rscert_seconds(binary, case, n0, threads, out):
    command = [binary, "certify", "--model", case.model, "--data", case.data, "--sigma", case.sigma, "--n0", n0, "--n", case.n]
    command += ["--max", case.examples, "--method", "clopper-pearson", "--threads", threads, "--device", "cpu", "--quiet", "--out", out]
    start = time.perf_counter()
    subprocess.run([str(word) for word in command + case.flags], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rscert", type=Path, default=ROOT / "bin/rscert")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--n0", type=int, default=100)
    args = parser.parse_args()
    print(f"ONNX Runtime {ort.__version__}, numpy {np.__version__}, {args.threads} threads, {args.rounds} rounds, samples/s")
    scratch = Path(tempfile.mkdtemp(prefix="rscert-compare-"))
    try:
        for case in cases():
            loop = Loop(case, args.threads)
            loop.votes(case.images[0].reshape(loop.shape), 1000)  # warms up the allocator
            samples = case.examples * (args.n0 + case.n)
            python, rscert = [], []
            for turn in range(args.rounds):
                python.append(samples / loop.seconds(args.n0))
                rscert.append(samples / rscert_seconds(args.rscert, case, args.n0, args.threads, scratch / f"{case.model.stem}-{turn}"))
            print(f"\n{case.name}: {case.examples} examples of {args.n0} + {case.n} samples, Python in batches of {loop.batch}")
            for name, rates in (("Python", python), ("rscert", rscert)):
                print(f"  {name}  {statistics.median(rates):10,.0f}   ({', '.join(f'{rate:,.0f}' for rate in rates)})")
            print(f"  ratio   {statistics.median(rscert) / statistics.median(python):10.2f}")
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
