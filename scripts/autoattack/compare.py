#!/usr/bin/env python3
"""Compares 'rscert attack' with AutoAttack, torchattacks and ART; run by 'make autoattack'.

All programs attack the same examples of the same ONNX files, within the same norms. The Python programs attack a
PyTorch twin, which onnx2torch makes. The script prints the tables of docs/attacks.md, with marks for studies/page. It
keeps each result in a file of the folder --cache, so that a later call can continue an interrupted comparison.
"""

import argparse
import datetime
import gzip
import io
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path

warnings.filterwarnings("ignore")

ROOT = Path(__file__).resolve().parent.parent.parent
SHARED = ROOT.parent / "shared"
AUTOATTACK = SHARED / "reference" / "autoattack"
NEEDED = [AUTOATTACK, SHARED / "data" / "vnncomp2021", SHARED / "data" / "cifar10-jpeg"]
if missing := [path.name for path in NEEDED if not path.exists()]:
    print(f"make autoattack: skipped: the folder ../shared has no {', '.join(missing)}", file=sys.stderr)
    sys.exit(0)

sys.path.insert(0, str(AUTOATTACK))

import numpy as np
import onnx
import onnxruntime
import pyarrow.parquet
import torch
import torchattacks
from art.attacks.evasion import AutoProjectedGradientDescent
from art.estimators.classification import PyTorchClassifier
from autoattack import AutoAttack
from onnx2torch import convert
from PIL import Image

torch.set_num_threads(1)  # the tensors are so small that several threads would mostly wait for each other

SEED = 1
STAGES = ["apgd-ce", "apgd-t", "fab-t", "square"]  # the attacks of AutoAttack's version standard
BATCH = 100
NORMS = {"linf": "Linf", "l2": "L2"}
CNN, RESNET, DENSE = "mnist-cnn", "cifar10_resnet_2b", "mnist-net_256x2"


def digits(count, shape):
    """Returns the first MNIST test digits, in [0, 1]."""
    folder = ROOT / "testdata" / "mnist"
    with gzip.open(folder / "t10k-images-idx3-ubyte.gz") as f:
        x = np.frombuffer(f.read(), np.uint8, offset=16).reshape(-1, *shape)[:count]
    with gzip.open(folder / "t10k-labels-idx1-ubyte.gz") as f:
        y = np.frombuffer(f.read(), np.uint8, offset=8)[:count]
    return x.astype(np.float32) / np.float32(255), y.astype(np.int64)


def cifar(count):
    """Returns the first CIFAR-10 test images of the JPEG copy, in [0, 1], channels first."""
    table = pyarrow.parquet.read_table(SHARED / "data" / "cifar10-jpeg" / "test.parquet").slice(0, count).to_pydict()
    images = np.stack([np.asarray(Image.open(io.BytesIO(i["bytes"])).convert("RGB")) for i in table["image"]])
    images = np.ascontiguousarray(images.transpose(0, 3, 1, 2), np.float32)  # AutoAttack takes no other layout
    return images / np.float32(255), np.array(table["label"], np.int64)


class Twin(torch.nn.Module):
    """A PyTorch copy of an ONNX file's model. It takes images in [0, 1] with channels first, and normalises them
    itself."""

    def __init__(self, file, shape, mean, std):
        super().__init__()
        self.net, self.shape = convert(onnx.load(file)).eval(), shape
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1))
        self.std = std
        for parameter in self.parameters():
            parameter.requires_grad_(False)

    def forward(self, x):
        return self.net(((x - self.mean) / self.std).reshape(-1, *self.shape))


class Case:
    """A model with its examples."""

    def __init__(self, name, count):
        self.name, mean, self.std = name, [0.0], 1.0
        if name == CNN:
            self.file, shape = ROOT / "testdata" / "mnist-cnn.onnx", (1, 28, 28)
            self.x, self.y = digits(count, shape)
        elif name == DENSE:
            self.file, shape = SHARED / "data" / "vnncomp2021" / "mnist-net_256x2.onnx", (784, 1)
            self.x, self.y = digits(count, (1, 28, 28))
        else:
            self.file, shape = SHARED / "data" / "vnncomp2021" / "cifar10_resnet_2b.onnx", (3, 32, 32)
            mean, self.std = [0.485, 0.456, 0.406], 0.225
            self.x, self.y = cifar(count)
        self.mean = mean
        self.twin, self.shape = Twin(self.file, shape, mean, self.std), shape
        self.check_logits()

    def tensors(self):
        return torch.from_numpy(self.x), torch.from_numpy(self.y)

    def check_logits(self):
        """Checks that the twin's logits equal those of ONNX Runtime up to rounding."""
        session = onnxruntime.InferenceSession(str(self.file), providers=["CPUExecutionProvider"])
        x = ((self.x - np.float32(self.mean).reshape(-1, 1, 1)) / np.float32(self.std)).astype(np.float32)
        feed = session.get_inputs()[0].name
        logits = np.concatenate([session.run(None, {feed: row.reshape(1, *self.shape)})[0] for row in x])
        with torch.no_grad():
            self.logit_error = float(np.abs(self.twin(torch.from_numpy(self.x)).numpy() - logits).max())
        if self.logit_error > 1e-4 * np.abs(logits).max():
            sys.exit(f"{self.name}: PyTorch's logits differ from ONNX Runtime's by {self.logit_error}")
        self.clean = float((logits.argmax(1) == self.y).mean())

    def robust(self, adversarial, norm, epsilon):
        """Returns the accuracy on inputs that an attack returns. An input beyond the norm does not count as a success
        of the attack."""
        x, y = self.tensors()
        with torch.no_grad():
            d = (adversarial - x).flatten(1)
            within = (d.abs().amax(1) if norm == "linf" else d.norm(dim=1)) <= epsilon * (1 + 1e-5)
            wrong = self.twin(adversarial).argmax(1) != y
            clean = self.twin(x).argmax(1) == y
        return float((clean & ~(wrong & within)).float().mean())


def autoattack(case, norm, epsilon, attacks):
    """Returns the robust accuracies after each attack of a sequence, as the authors' AutoAttack finds them."""
    with tempfile.TemporaryDirectory() as folder:
        log, standard = Path(folder) / "log", attacks == STAGES
        attack = AutoAttack(case.twin, norm=NORMS[norm], eps=epsilon, seed=SEED, device="cpu",
                            version="standard" if standard else "custom", log_path=str(log),
                            attacks_to_run=[] if standard else attacks)
        attack.apgd.n_restarts = 1
        attack.run_standard_evaluation(*case.tensors(), bs=BATCH)
        found = dict(re.findall(r"robust accuracy after ([\w-]+): ([\d.]+)%", log.read_text()))
    found, last = {name.lower(): float(share) / 100 for name, share in found.items()}, None
    for name in attacks:  # AutoAttack stops when no example is left, so later attacks have the same accuracy
        last = found.get(name, last)
        found[name] = last
    return found


def torchattacks_apgd(case, norm, epsilon):
    x, y = case.tensors()
    attack = torchattacks.APGD(case.twin, norm=NORMS[norm], eps=epsilon, steps=100, n_restarts=1, seed=SEED, loss="ce")
    adversarial = torch.cat([attack(a, b) for a, b in zip(x.split(BATCH), y.split(BATCH))])
    return {"apgd-ce": case.robust(adversarial, norm, epsilon)}


def art_apgd(case, norm, epsilon):
    np.random.seed(SEED)
    classifier = PyTorchClassifier(case.twin, torch.nn.CrossEntropyLoss(), case.x.shape[1:], 10, clip_values=(0, 1),
                                   device_type="cpu")
    attack = AutoProjectedGradientDescent(classifier, norm={"linf": np.inf, "l2": 2}[norm], eps=epsilon,
                                          eps_step=2 * epsilon, max_iter=100, nb_random_init=1, batch_size=BATCH,
                                          loss_type="cross_entropy", verbose=False)
    adversarial = torch.from_numpy(attack.generate(case.x, np.eye(10)[case.y]))
    return {"apgd-ce": case.robust(adversarial, norm, epsilon)}


def rscert(binary, case, norm, epsilon, attack, extra=()):
    """Returns rscert's robust accuracies after each attack. Also counts the adversarial inputs that rscert found, and
    how many of these inputs PyTorch misclassifies, too."""
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder) / "data.npz", Path(folder) / "run"
        np.savez(data, x=case.x.reshape(-1, *case.shape), y=case.y)
        command = [binary, "attack", "--model", case.file, "--data", data, "--norm", norm, "--eps", repr(epsilon),
                   "--attack", attack, "--seed", SEED, "--out", out, "--quiet", *extra]
        if case.name == RESNET:
            command += ["--mean", ",".join(map(str, case.mean)), "--std", case.std]
        subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
        result, found = json.loads((out / "attack.json").read_text()), np.load(out / "adversarial.npz")
        with torch.no_grad():
            x = torch.from_numpy(found["x"]).reshape(-1, *case.x.shape[1:])
            wrong = int((case.twin(x).argmax(1) != torch.from_numpy(found["y"])).sum())
    shares = {stage["attack"]: stage["robust"]["share"] for stage in result["stages"]}
    distances = [row["distance"] for row in result["results"] if "distance" in row]
    return shares | {"found": len(distances), "wrong": wrong}


def measured(folder, key, measure):
    """Returns the result of the function 'measure' and its time in seconds. Keeps both in the folder of --cache, and
    calls 'measure' only if the folder does not hold them yet."""
    file = folder / (re.sub(r"[^\w.]+", "-", key) + ".json")
    if not file.exists():
        start = time.monotonic()
        result = measure() | {"seconds": time.monotonic() - start, "day": datetime.date.today().isoformat()}
        file.write_text(json.dumps(result, indent=1))
        print(key, result, file=sys.stderr, flush=True)
    return json.loads(file.read_text())


def percent(share):
    return "–" if share is None else f"{100 * share:.1f}"


def standard_rows(binary, folder, cases, plan):
    for name, norm, epsilon, text in plan:
        case, key = cases[name], f"{name} {len(cases[name].y)} {norm} {epsilon}"
        theirs = measured(folder, f"{key} standard AutoAttack", lambda: autoattack(case, norm, epsilon, STAGES))
        ours = measured(folder, f"{key} standard rscert", lambda: rscert(binary, case, norm, epsilon, "standard"))
        for program, r in ("AutoAttack", theirs), ("rscert", ours):
            yield (f"| {name} | {len(case.y)} | {norm} ≤ {text} | {percent(case.clean)} | {program} | "
                   + " | ".join(percent(r.get(stage)) for stage in STAGES) + f" | {r['seconds']:.0f} |")


def single_rows(binary, folder, cases, plan):
    queries = ("--steps", 5000)
    for name, norm, epsilon, text in plan:
        case, key = cases[name], f"{name} {len(cases[name].y)} {norm} {epsilon}"
        for attack in ("apgd-ce", "fab-t", "square"):
            extra = queries if attack == "square" else ()
            programs = {"AutoAttack": lambda: autoattack(case, norm, epsilon, [attack]),
                        "torchattacks": lambda: torchattacks_apgd(case, norm, epsilon),
                        "ART": lambda: art_apgd(case, norm, epsilon),
                        "rscert": lambda: rscert(binary, case, norm, epsilon, attack, extra)}
            cells = []
            for program, run in programs.items():
                left_out = attack != "apgd-ce" and program in ("torchattacks", "ART")
                r = {} if left_out else measured(folder, f"{key} {attack} {program}", run)
                cells.append(percent(r.get(attack)))
            yield f"| {name} | {len(case.y)} | {norm} ≤ {text} | {attack} | {' | '.join(cells)} |"


STANDARD = [
    (CNN, "linf", 0.1, "0.1"), (CNN, "linf", 0.2, "0.2"), (CNN, "linf", 0.3, "0.3"), (CNN, "l2", 2.0, "2"),
    (RESNET, "linf", 4 / 255, "4/255"), (DENSE, "linf", 0.03, "0.03"),
]
SINGLE = [(DENSE, "linf", 0.03, "0.03"), (DENSE, "l2", 0.8, "0.8"), (CNN, "l2", 2.0, "2")]


def machine():
    with open("/proc/cpuinfo") as f:
        model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), platform.machine())
    return f"{model}, {os.cpu_count()} cores"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rscert", required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--only", default="", help="take the rows whose model, norm and ε contain this text")
    arguments = parser.parse_args()
    arguments.cache.mkdir(parents=True, exist_ok=True)

    def chosen(plan):
        return [row for row in plan if arguments.only in f"{row[0]} {row[1]} {row[3]}"]

    names = {row[0] for row in chosen(STANDARD + SINGLE)}
    cases = {name: Case(name, arguments.examples) for name in (CNN, RESNET, DENSE) if name in names}
    standard = list(standard_rows(arguments.rscert, arguments.cache, cases, chosen(STANDARD)))
    single = list(single_rows(arguments.rscert, arguments.cache, cases, chosen(SINGLE)))
    ours = [json.loads(file.read_text()) for file in arguments.cache.glob("*rscert.json")]
    found, wrong = sum(r["found"] for r in ours), sum(r["wrong"] for r in ours)
    days = sorted({json.loads(file.read_text())["day"] for file in arguments.cache.glob("*.json")})
    error = max(case.logit_error for case in cases.values())
    print("<!-- made: autoattack -->\n")
    print("| model | examples | norm | clean | program | apgd-ce | apgd-t | fab-t | square | seconds |")
    print("| --- | ---: | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    print("\n".join(standard))
    print("\nThe next table gives the robust accuracy in % under single attacks:\n")
    print("| model | examples | norm | attack | AutoAttack | torchattacks | ART | rscert |")
    print("| --- | ---: | --- | --- | ---: | ---: | ---: | ---: |")
    print("\n".join(single))
    packages = ("torch", "torchattacks", "adversarial-robustness-toolbox")
    print(f"\nMeasured {' to '.join(days)} on {machine()}, load average {os.getloadavg()[2]:.0f} at the end, with")
    print(", ".join(f"{name} {version(name)}" for name in packages) + ".")
    print(f"The logits of the copies in PyTorch differ from ONNX Runtime's by at most {error:.1g}.")
    print(f"rscert found {found} adversarial inputs, and PyTorch gets {wrong} of them wrong.")
    print("\n<!-- end: autoattack -->")


if __name__ == "__main__":
    main()
