#!/usr/bin/env python3
"""Runs every Python snippet of docs/my-model.md, docs/my-data.md and docs/denoiser.md, and rscert on the files written.

    python snippets.py --rscert bin/rscert [--golden testdata/exports]

The snippets get a small model, trained for a moment, and small arrays x and y. Nothing is downloaded, because small
stand-ins replace the constructors of pretrained models and the loaders of datasets. With --golden, the script keeps the
models and the predictions of ONNX Runtime in Python, for the tests in Go.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

import compare
import zoo

SNIPPET = re.compile(r"<!-- snippet: (\S+) (\S+) -->\n```python\n(.*?)```", re.S)
GOLDEN = 20  # examples


def tiny():
    return nn.Sequential(nn.Conv2d(3, 6, 5, 4, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(96, 10))


def keras_model():
    import keras
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((32, 32, 3)), keras.layers.Conv2D(6, 5, 4, activation="relu"),
                              keras.layers.Flatten(), keras.layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(zoo.images[zoo.TEST:].transpose(0, 2, 3, 1) / np.float32(255), zoo.labels[zoo.TEST:], epochs=3, verbose=0)
    return model


def small_pretrained(undo):
    """Replaces the loaders of pretrained models and datasets by stand-ins that return small ones."""
    import keras
    import timm
    import torchvision
    import transformers

    def resnet(name, weights):
        return zoo.trained_model("tiny", tiny, 8)

    create = timm.create_model

    def vit(name, pretrained):
        torch.manual_seed(1)
        return create(name, pretrained=False, num_classes=10, img_size=224, patch_size=32, depth=1, embed_dim=24, num_heads=2)

    class Auto:
        @staticmethod
        def from_pretrained(name):
            from transformers import ViTConfig, ViTForImageClassification
            torch.manual_seed(1)
            config = ViTConfig(image_size=32, patch_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                               intermediate_size=32, num_labels=10)
            return zoo.trained_model("auto", lambda: ViTForImageClassification(config), 6)

    class Cifar:
        def __init__(self, folder, train, download):
            self.data, self.targets = zoo.images[:30].transpose(0, 2, 3, 1), list(zoo.labels[:30])

    def fashion():
        grey = zoo.images[:30, 0]
        return (grey, zoo.labels[:30]), (grey, zoo.labels[:30])

    for owner, name, value in (
        (torchvision.models, "get_model", resnet), (timm, "create_model", vit),
        (transformers, "AutoModelForImageClassification", Auto), (torchvision.datasets, "CIFAR10", Cifar),
        (keras.datasets.fashion_mnist, "load_data", fashion),
    ):
        undo.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, value)


def given(name, folder):
    """Returns the variables that snippets use without defining them. Writes the files that some snippets read."""
    zoo.write_data(folder)
    known = {"np": np, "x": zoo.rows[zoo.TEST:], "y": zoo.labels[zoo.TEST:]}
    model = zoo.trained_model("tiny", tiny, 8)
    if name == "keras":
        known["model"] = keras_model()
    elif name.startswith("torch"):
        known["model"] = model
    elif name == "one-file":
        zoo.dynamo(model, folder / "elsewhere.onnx", 18)
    elif name == "quantised":
        zoo.legacy(model, folder / "float.onnx", 17)
    given_data(name, known, folder)
    return known


def given_data(name, known, folder):
    if name.startswith("data-"):
        known["x"], known["y"] = zoo.images[:30], zoo.labels[:30]
    if name == "data-torch":
        torch.save((torch.from_numpy(zoo.images[:30]), torch.from_numpy(zoo.labels[:30])), folder / "test.pt")


def run_model(program, name, data, code, folder, golden):
    """Runs a snippet that writes my.onnx. rscert and ONNX Runtime must make the same predictions with this model."""
    known = given(name, folder)
    exec(compile(code, name, "exec"), known)
    model, inputs = folder / "my.onnx", folder / data
    if name in ("timm", "torchvision"):  # their input is 224×224
        archive = np.load(inputs)
        np.savez(inputs, x=archive["x"].repeat(7, 2).repeat(7, 3)[:GOLDEN], y=archive["y"][:GOLDEN])
    scores, labels = compare.reference(model, inputs)
    votes = scores.argmax(1)
    done = compare.rscert(program, ["certify", "--model", str(model), "--data", str(inputs), "--sigma", "0.001", "--seed", "1",
                                    "--n", "1", "--n0", "1", "--max", str(GOLDEN), "--out", str(folder / "run")])
    own = [json.loads(line)["clean"] for line in (folder / "run/votes.jsonl").read_text().splitlines()]
    if own != [int(v) for v in votes[:GOLDEN]]:
        raise AssertionError(f"{name}: rscert predicts {own}, ONNX Runtime {list(votes[:GOLDEN])}")
    accuracy = (votes == labels).mean()
    print(f"{name}: {len(own)} predictions equal, of {len(set(own))} classes, accuracy {100 * accuracy:.0f} %", flush=True)
    sizes = sum(p.stat().st_size for p in folder.glob("my.onnx*"))
    # There are no golden files for other data, nor for integer models, whose sums differ between processors.
    if golden is None or name in ("timm", "torchvision", "quantised") or sizes > 100_000:
        return
    # A model with external weights names the file of its weights. So the copy of this file keeps the name, in a folder
    # of its own.
    (golden / name).mkdir(parents=True, exist_ok=True)
    for p in folder.glob("my.onnx*"):
        shutil.copy(p, golden / name / p.name)
    expected = json.loads((golden / "predictions.json").read_text()) if (golden / "predictions.json").exists() else {}
    expected[name] = {"data": data, "predictions": own}
    (golden / "predictions.json").write_text(json.dumps(expected, indent=1) + "\n")


def run_data(program, name, output, code, folder):
    """Runs a snippet that writes data. rscert must read the data, and the model must classify them correctly."""
    known = given(name, folder)
    exec(compile(code, name, "exec"), known)
    files = ("data.npz", "test.parquet", "test.tar", "data.csv", "cifar-10-batches-py")
    path = next(p for p in files if (folder / p).exists())
    zoo.legacy(zoo.trained_model("tiny", tiny, 8), folder / "cnn.onnx", 17)
    done = subprocess.run([program, "certify", "--model", str(folder / "cnn.onnx"), "--data", str(folder / path), "--sigma", "0.001",
                           "--check", "--json"], capture_output=True, text=True)
    if output != "images":  # the model takes another shape; if rscert reports this, it has read the file
        if "wants" not in done.stderr:
            raise AssertionError(f"{name}: {done.stderr}")
        print(f"{name}: {path} is read ({done.stderr.splitlines()[0][:150]})", flush=True)
        return
    if done.returncode:
        raise AssertionError(f"{name}: {done.stderr}")
    accuracy = json.loads(done.stdout)["look"]["clean_accuracy"]
    if accuracy < 0.7:
        raise AssertionError(f"{name}: accuracy {accuracy}")
    print(f"{name}: {path}, accuracy {100 * accuracy:.0f} %", flush=True)


class Removed(nn.Module):
    """A noise predictor as in diffusers, whose output has a member named sample."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, image, timestep):
        noise = self.layer(image) + timestep[:, None, None, None] / 1000
        return type("Output", (), {"sample": noise})


def run_denoiser(program, name, code, folder):
    """Runs a snippet that writes a denoiser. rscert must put the denoiser in front of the model and sample."""
    zoo.write_data(folder)
    torch.manual_seed(1)
    known = {"denoiser": nn.Conv2d(3, 3, 3, padding=1), "unet": Removed()}
    exec(compile(code, name, "exec"), known)
    zoo.legacy(zoo.trained_model("tiny", tiny, 8), folder / "cnn.onnx", 17)
    kind = [] if name == "denoiser" else ["--denoiser-kind", "epsilon", "--diffusion-schedule", "linear"]
    path = folder / ("denoiser.onnx" if name == "denoiser" else "unet.onnx")
    compare.rscert(program, ["certify", "--model", str(folder / "cnn.onnx"), "--denoiser", str(path), *kind, "--data",
                             str(folder / "images.npz"), "--sigma", "0.25", "--n", "20", "--n0", "5", "--max", "5", "--seed", "1",
                             "--out", str(folder / "run")])
    record = (folder / "run/run.json").read_text()
    if path.name not in record:
        raise AssertionError(f"{name}: {record}")
    print(f"{name}: {path.name} is put in front of the model", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rscert", default="bin/rscert", type=Path)
    parser.add_argument("--golden", type=Path)
    parser.add_argument("names", nargs="*")
    a = parser.parse_args()
    program, docs = str(a.rscert.resolve()), Path(__file__).resolve().parents[2] / "docs"
    golden = a.golden.resolve() if a.golden else None
    if golden:
        golden.mkdir(parents=True, exist_ok=True)
    failed = False
    with contextlib.ExitStack() as undo:
        small_pretrained(undo)
        for page in ("my-model.md", "my-data.md", "denoiser.md"):
            text = (docs / page).read_text()
            found = SNIPPET.findall(text)
            if len(found) != text.count("```python"):
                sys.exit(f"{page}: {text.count('```python')} snippets, of which {len(found)} have a name")
            for name, data, code in found:
                if a.names and name not in a.names:
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    os.chdir(folder)
                    try:
                        if page == "my-model.md":
                            run_model(program, name, data, code, Path(folder), golden)
                        elif page == "denoiser.md":
                            run_denoiser(program, name, code, Path(folder))
                        else:
                            run_data(program, name, data, code, Path(folder))
                    except Exception as error:
                        failed = True
                        print(f"{name}: FAILED: {type(error).__name__}: {str(error)[:600]}", flush=True)
                    os.chdir("/")
    if golden:
        np.savez_compressed(golden / "images.npz", x=zoo.images[:GOLDEN], y=zoo.labels[:GOLDEN])
        np.savez_compressed(golden / "rows.npz", x=zoo.rows[:GOLDEN], y=zoo.labels[:GOLDEN])
    sys.exit(failed)


if __name__ == "__main__":
    main()
