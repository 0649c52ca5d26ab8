#!/usr/bin/env python3
"""Checks rscert's gradients of the models of zoo.py and writes the table of docs/models.md: 'make gradient-models'.

    python gradients.py --gradients out/gradients --folder out/models [NAME …]

The loss is the largest logit of another class minus the label's logit, on examples with noise. Its gradient is compared
- with PyTorch's autograd in float64, on the model that was exported;
- without such a model, with central differences of ONNX's reference implementation in float64, along random directions;
- for quantised models, whose gradient is a surrogate, with PyTorch's on the model before quantisation, by the cosine
only.
"""
import argparse
import copy
import datetime
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx.reference import ReferenceEvaluator

import zoo

EXAMPLES = 8
# Without noise, the enlarged digits have equal pixels. Rounding would then decide which of them is the maximum and gets
# the gradient.
NOISE = .1
DIRECTIONS = 32
STEP = 1e-5
SAME = {"cnn-bytes": "cnn-17", "cnn-double": "cnn-17", "cnn-half": "cnn-17", "resnet18-half": "resnet18"}
HALVES = ["cnn-half", "resnet18-half"]
SURROGATES = {"resnet18-qdq": "resnet18", "cnn-qoperator": "cnn-17", "tv_vit-dynamic": "tv_vit"}


class Server:
    """The program scripts/gradients."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer


def examples(entry, folder, path):
    """Returns examples with noise in the model's form of input, float32, and their labels."""
    archive = np.load(folder / entry.data)
    x, y = archive["x"][:EXAMPLES], archive["y"][:EXAMPLES].astype(np.int64)
    if x.dtype == np.uint8:
        x = x.astype(np.float32) / 255
    noise = NOISE * np.random.default_rng(1).standard_normal(x.shape)
    if entry.name in SURROGATES:  # inputs of these models saturate outside [0, 1]
        noise = np.clip(.2 + .6 * x + noise, .02, .98) - x
    x = (x + noise).astype(np.float32)
    dims = [d.dim_value for d in onnx.load(path, load_external_data=False).graph.input[0].type.tensor_type.shape.dim]
    if x.ndim == 4 and dims[-1] == 3:
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    return x, y


def margin(z, y):
    """Returns the loss of logits [N, m], in PyTorch."""
    own = torch.nn.functional.one_hot(y, z.shape[1]).bool()
    return z.masked_fill(own, -torch.inf).amax(1) - z.gather(1, y[:, None])[:, 0]


def autograd(name, x, y, kind=torch.float64):
    """Returns the gradient by PyTorch. Some originals take only one example at a time."""
    model = copy.deepcopy(zoo.original(name)).to(kind)
    rows = []
    for k in range(len(x)):
        row = torch.from_numpy(x[k:k + 1]).to(kind).requires_grad_()
        out = model(row)
        rows.append(torch.autograd.grad(margin(getattr(out, "logits", out), torch.from_numpy(y[k:k + 1])).sum(), row)[0])
    return torch.cat(rows).numpy()


def distance(gradient, want):
    return float(np.linalg.norm(gradient - want) / np.linalg.norm(want))


def doubled(path):
    """Returns the model converted to float64, for ONNX's reference implementation."""
    model = onnx.load(path)
    wide = {onnx.TensorProto.FLOAT: onnx.TensorProto.DOUBLE}

    def widen(tensor):
        if tensor.data_type in wide:
            tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    for tensor in model.graph.initializer:
        widen(tensor)
    for node in model.graph.node:
        for a in node.attribute:
            if a.HasField("t"):
                widen(a.t)
            if node.op_type == "Cast" and a.name == "to":
                a.i = wide.get(a.i, a.i)
    for value in [*model.graph.input, *model.graph.output]:
        kind = value.type.tensor_type
        kind.elem_type = wide.get(kind.elem_type, kind.elem_type)
    del model.graph.value_info[:]
    for node in [n for n in model.graph.node if n.op_type == "ZipMap"]:  # the reference implementation lacks ZipMap
        model.graph.node.remove(node)
        for value in model.graph.output:
            if value.name == node.output[0]:
                value.name = node.input[0]
    return ReferenceEvaluator(model)


def differences(path, x, y, gradient, probabilities):
    """Returns the largest difference between a measured slope along a random direction and the slope that the gradient
    implies, divided by the gradient's norm."""
    session = doubled(path)
    columns = len(session.input_names) > 1

    def loss(x):
        feed = {n: x[:, k:k + 1] for k, n in enumerate(session.input_names)} if columns else {session.input_names[0]: x}
        z = session.run(None, feed)[-1]
        if isinstance(z, list):
            z = np.array([[row[k] for k in sorted(row)] for row in z])
        if z.dtype != np.float64:
            raise TypeError(f"the reference implementation computes in {z.dtype}")
        z = np.log(z) if probabilities else z
        own = np.arange(z.shape[1]) == y[:, None]
        return (np.where(own, -np.inf, z).max(1) - z[own]).sum()
    rng, worst = np.random.default_rng(2), 0
    gradient, x = gradient.astype(np.float64), x.astype(np.float64)
    for k in range(DIRECTIONS):
        v = gradient.copy() if k == 0 else rng.standard_normal(x.shape)
        v /= np.linalg.norm(v)
        slope = (loss(x + STEP * v) - loss(x - STEP * v)) / (2 * STEP)
        worst = max(worst, abs(slope - (gradient * v).sum()))
    return worst / np.linalg.norm(gradient)


def check(server, folder, entry):
    path = folder / f"{entry.name}.onnx"
    x, y = examples(entry, folder, path)
    try:
        server.ask(open=str(path), loss="margin", examples=EXAMPLES)
    except RuntimeError as error:
        if "one input a call" not in str(error):
            return {"refused": str(error)}
        x, y = x[:1], y[:1]
        try:
            server.ask(open=str(path), loss="margin", examples=1)
        except RuntimeError as error:
            return {"refused": str(error)}
    flat = [float(v) for v in x.ravel()]
    answer = server.ask(run="gradient", x=flat, labels=y.tolist())
    gradient = np.array(answer["gradient"], np.float32).reshape(x.shape)
    row = {"examples": len(y), "norm": float(np.linalg.norm(gradient))}
    name = SURROGATES.get(entry.name, SAME.get(entry.name, entry.name))
    if name in zoo.ORIGINALS:
        want = autograd(name, x, y)
        row["cosine"] = float((gradient * want).sum() / np.linalg.norm(gradient) / np.linalg.norm(want))
        row["oracle"] = "surrogate" if entry.name in SURROGATES else "autograd"
        row["error"] = distance(gradient, want)
        row["median"] = float(np.median([distance(g, w) for g, w in zip(gradient, want, strict=True)]))
        halves = entry.name in HALVES
        row["torch"] = distance(autograd(name, x, y, torch.float16 if halves else torch.float32), want)
    else:
        scores = np.array(answer["scores"]).reshape(len(y), -1)
        probabilities = bool((scores >= 0).all() and abs(scores.sum(1) - 1).max() < 1e-3)
        row["oracle"], row["error"] = "differences", float(differences(path, x, y, gradient, probabilities))
    return row


ORACLES = {"autograd": "PyTorch", "differences": "differences", "surrogate": "surrogate"}
REFUSALS = {"no gradient is known: ": "no rule for ", "values of type ": "conversions from ", "this ONNX Runtime": "the model itself is refused"}


def reason(text):
    """Returns a few words that say why a model has no gradient."""
    for start, short in REFUSALS.items():
        if text and start in text:
            return short + ("" if start == "this ONNX Runtime" else text.split(start)[1].split(",")[0].split(" have ")[0])
    return text


def passes(row):
    """Reports whether the gradient is right up to rounding errors like those of PyTorch's gradient.

    The median over the examples decides, because at a kink, rounding can change the gradient of one example visibly."""
    if row.get("oracle") == "surrogate" or "refused" in row:
        return True
    return "error" in row and row.get("median", row["error"]) <= max(1e-5, 10 * row.get("torch", 0))


def table(rows):
    ran = [r for r in rows.values() if "error" in r]
    counts = {o: sum(r["oracle"] == o for r in ran) for o in ORACLES}
    lines = [
        "<!-- made: gradient-checks -->",
        f"{len(ran)} of {len(rows)} models have gradients ({datetime.date.today():%-d %B %Y}): {counts['autograd']} were compared with"
        f" PyTorch's autograd, {counts['differences']} with finite differences, and {counts['surrogate']} have surrogate gradients.", "",
        "| model | exporter | opset | compared with | error | error of PyTorch |",
        "| --- | --- | --- | --- | ---: | ---: |",
    ]
    for e in zoo.ZOO:
        r = rows.get(e.name)
        if r is None:
            continue
        opset = r["opset"]
        if "error" not in r:
            lines.append(f"| {e.family} | {e.exporter} | {opset} | {reason(r.get('refused') or r['problem'])} | | |")
        elif r["oracle"] == "surrogate":
            lines.append(f"| {e.family} | {e.exporter} | {opset} | surrogate, cosine {r['cosine']:.3f} | | |")
        else:
            other = f"{r['torch']:.0e}" if "torch" in r else ""
            lines.append(f"| {e.family} | {e.exporter} | {opset} | {ORACLES[r['oracle']]} | {r['error']:.0e} | {other} |")
    return "\n".join([*lines, "<!-- end: gradient-checks -->"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gradients", required=True, help="the program built from scripts/gradients")
    parser.add_argument("--folder", type=Path, default=Path("out/models"))
    parser.add_argument("names", nargs="*")
    a = parser.parse_args()
    zoo.export(a.folder, a.names)
    kept = a.folder / "gradients.json"
    rows = json.loads(kept.read_text()) if kept.exists() and a.names else {}
    server = Server(a.gradients)
    for entry in zoo.ZOO:
        path = a.folder / f"{entry.name}.onnx"
        if not path.exists() or a.names and entry.name not in a.names:
            continue
        try:
            row = check(server, a.folder, entry)
        except Exception as error:  # the oracle failed
            row = {"problem": f"{type(error).__name__}: {error}"}
        model = onnx.load(path, load_external_data=False)
        row["opset"] = max(o.version for o in model.opset_import if o.domain in ("", "ai.onnx", "ai.onnx.ml"))
        rows[entry.name] = row
        print(entry.name, json.dumps(row), file=sys.stderr, flush=True)
        kept.write_text(json.dumps(rows))
    print(table(rows))
    sys.exit(not all(passes(r) for r in rows.values()))


if __name__ == "__main__":
    main()
