#!/usr/bin/env python3
"""Checks and measures rscert on a GPU, step by step, and writes docs/gpu-results.md; run by gpu_check.sh.

Each command and the whole program have a time limit. The program reports a failed step and continues with the next. It
rewrites the report after every step, so the report exists however the program ends. Exit code 1 means that a step
failed.
"""

import argparse
import datetime
import glob
import json
import os
import platform
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from random import Random

import gpu_report

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs/gpu-results.md"
BUNDLED = ROOT / "testdata/mnist-cnn.onnx", ROOT / "testdata/mnist"
CHECKSUM = ROOT / "testdata/noise-checksum.onnx"  # for the bundled digits; see gpu_torch.Checksum
BATCHES = {"resnet20": 1024, "resnet110": 1024, "resnet50": 256, "vit_b_16": 128}
SIDES = {"resnet20": 32, "resnet110": 32, "resnet50": 224, "vit_b_16": 224}


class LeftOut(Exception):
    """Raised by a step that lacks its input or has no time left."""


class Failed(Exception):
    """Raised by a step that found an error."""


class Check:
    def __init__(self, args):
        self.args, self.cuda = args, args.device.startswith("cuda")
        self.work = Path(tempfile.mkdtemp(prefix="rscert-gpu-check-"))
        self.began = time.monotonic()
        self.found = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "device": args.device,
                      "quick": args.quick, "steps": [], "commands": []}
        self.env = environment(args)
        self.env["TORCHINDUCTOR_CACHE_DIR"] = str(self.work / "inductor")  # in the work folder, because the compiler may be killed
        self.help, self.models, self.torch = "", {}, None

    def left(self):
        return 60 * self.args.minutes - (time.monotonic() - self.began)

    def step(self, name, limit, work):
        """Runs a step with a time limit in seconds and records the outcome."""
        self.ends = time.monotonic() + min(limit, self.left())
        started, outcome, says = time.monotonic(), "done", ""
        try:
            if self.left() < 5:
                raise LeftOut("no time was left")
            says = work() or ""
        except LeftOut as error:
            outcome, says = "left out", str(error)
        except subprocess.TimeoutExpired as error:
            outcome, says = "failed", f"took more than its {error.timeout:.0f} s: {words(error.cmd)}"
        except Exception as error:  # any error ends only this step
            outcome, says = "failed", f"{type(error).__name__ + ': ' if not isinstance(error, Failed) else ''}{error}"
        seconds = time.monotonic() - started
        self.found["steps"].append({"step": name, "outcome": outcome, "says": says, "seconds": round(seconds, 1)})
        print(f"{seconds:6.1f} s  {name}: {outcome}{': ' if says else ''}{says}", file=sys.stderr, flush=True)
        gpu_report.write(self.args.out, self.found)

    def run(self, *command, limit=600, env=None, check=True, cwd=None, warnings=False):
        """Runs a command and returns its output or, with warnings, its standard error. Kills the command's processes at
        the time limit."""
        command = [str(word) for word in command]
        limit = max(1, min(limit, self.ends - time.monotonic()))
        started = time.monotonic()
        process = subprocess.Popen(command, env={**self.env, **(env or {})}, cwd=cwd, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, _ = process.communicate()
            raise subprocess.TimeoutExpired(command, limit, out) from None
        finally:
            seconds = round(time.monotonic() - started, 2)
            self.found["commands"].append({"command": words(command, env), "seconds": seconds, "exit": process.returncode})
        if check and process.returncode:
            raise Failed(f"{words(command[:2])} ended with {process.returncode}: {' / '.join((err or out).strip().splitlines()[-3:])}")
        return err if warnings else out

    def rscert(self, *arguments, **more):
        return self.run(self.args.rscert, *arguments, **more)

    def has(self, flag):
        return f"--{flag} " in self.help or f"--{flag}\n" in self.help

    def certify(self, name, model, data, *flags, n, examples, sigma=0.5, device=None):
        """Certifies into the folder of this name and checks that the device ran the model."""
        out = self.work / name
        device = device or self.args.device
        started = time.monotonic()
        said = self.rscert("certify", "--model", model, "--data", data, "--sigma", sigma, "--n", n, "--max", examples, "--seed", 1,
                           "--device", device, "--quiet", "--out", out, *flags, warnings=True)
        run = json.loads((out / "run.json").read_text())
        if device.startswith("cuda") and run["runtime"]["provider"] != "CUDAExecutionProvider":
            raise Failed(f"{name} ran on {run['runtime']['provider']}")
        if "--noise-on" in flags and run["runtime"].get("noise_on") != flags[flags.index("--noise-on") + 1]:
            raise Failed(f"{name}: the noise was made on the {run['runtime'].get('noise_on')}: {said.strip()}")
        return {"seconds": time.monotonic() - started, "runtime": run["runtime"], "folder": out}

    def compare(self, a, b):
        return json.loads(self.rscert("compare", self.work / a, self.work / b, "--json", "--quiet"))

    def plan(self, name, *flags):
        """Returns the document of 'rscert certify --plan --json'. It has the samples per second, including noise and
        votes."""
        model, data = self.models[name], self.data(SIDES[name])
        text = self.rscert("certify", "--model", model, "--data", data, "--sigma", 0.5, "--n", 100_000_000, "--max", 1, "--seed", 1,
                           "--device", self.args.device, "--plan", "--json", *flags, limit=60)
        return json.loads(text)

    def batch(self, name):
        return 16 if self.args.quick else BATCHES[name]

    def data(self, side):
        """Returns the path of an .npz file with two pictures of this size and their labels. Makes the file if it is
        missing."""
        path = self.work / f"pictures{side}.npz"
        if not path.exists():
            write_pictures(path, side)
        return path

    # The methods below are the steps.

    def machine(self):
        found = self.found["machine"] = {"system": platform.platform(), "python": platform.python_version(), "processor": processor(),
                                         "cores": len(os.sched_getaffinity(0))}
        self.help = self.rscert("certify", "--help", limit=20)
        found["doctor"] = self.rscert("doctor", limit=90, check=False).rstrip()
        found["rscert"] = self.rscert("--version", limit=20).splitlines()[0]
        tool = shutil.which("nvidia-smi")
        if tool and Path(tool).is_absolute():  # not from the current folder
            query = "--query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit"
            found["nvidia-smi"] = self.run(tool, query, "--format=csv", limit=20, check=False).strip()
        git = ["git", "-C", ROOT, "rev-parse", "HEAD"]
        found["commit"] = self.run(*git, limit=10, check=False).strip() if shutil.which("git") else ""
        return found["rscert"]

    def about_torch(self):
        try:
            self.torch = self.found["machine"]["torch"] = json.loads(self.gpu_torch("about", limit=60))
        except (Failed, OSError) as error:
            raise LeftOut(f"no PyTorch in {self.args.python}: {error}") from None
        if self.cuda and not self.torch["cuda"]:
            raise Failed(f"PyTorch {self.torch['torch']} does not see the GPU")
        return f"PyTorch {self.torch['torch']}"

    def gpu_torch(self, *arguments, limit):
        return self.run(self.args.python, ROOT / "scripts/gpu_torch.py", *arguments, limit=limit)

    def runs(self):
        """Compares certify on the device with the CPU provider."""
        n, examples = (500, 5) if self.args.quick else (10_000, 100)
        here = self.certify("bundled", *BUNDLED, n=n, examples=examples, sigma=1)
        cpu = self.certify("bundled-cpu", *BUNDLED, n=n, examples=examples, sigma=1, device="cpu")
        self.found["runs"] = {"seconds": here["seconds"], "cpu_seconds": cpu["seconds"], "runtime": here["runtime"],
                              "compare": self.compare("bundled-cpu", "bundled")}
        return gpu_report.agreement(self.found["runs"]["compare"])

    def noise(self):
        """Uses a model that computes with whole numbers to check that device and host make the same noise as the CPU,
        bit for bit."""
        ways = ["host", "device"] if self.has("noise-on") else ["host"]
        n, examples = (500, 3) if self.args.quick else (20_000, 10)
        cases = [("28", CHECKSUM, BUNDLED[1])]
        if self.torch and not self.args.quick:
            wide = self.work / "checksum224.onnx"
            self.gpu_torch("checksum", wide, 3, 224, 224, limit=60)
            cases.append(("224", wide, self.data(224)))
        said = []
        for size, model, data in cases:
            few = (n, examples) if size == "28" else (2000, 2)
            self.certify(f"sum{size}-cpu", model, data, n=few[0], examples=few[1], device="cpu")
            want = (self.work / f"sum{size}-cpu/votes.jsonl").read_bytes()
            for way in ways:
                flags = ["--noise-on", way] if self.has("noise-on") else []
                self.certify(f"sum{size}-{way}", model, data, *flags, n=few[0], examples=few[1])
                if (self.work / f"sum{size}-{way}/votes.jsonl").read_bytes() != want:
                    c = self.compare(f"sum{size}-cpu", f"sum{size}-{way}")
                    raise Failed(f"{size} × {size}, noise on the {way}: not the CPU's: {gpu_report.agreement(c)}")
                said.append(f"{size} × {size}, noise on the {way}: the CPU's votes, {few[0] * few[1]} samples")
        if len(ways) == 1:
            said.append("this rscert makes no noise on the device")
        self.found["noise"] = said
        return "; ".join(said)

    def several(self):
        """Checks that all GPUs of the machine together give the same result as one GPU."""
        gpus = len(self.found["machine"].get("nvidia-smi", "").splitlines()) - 1
        if not self.cuda or gpus < 2:
            raise LeftOut("there is one GPU" if self.cuda else "there is no GPU")
        self.certify("all-gpus", *BUNDLED, n=10_000, examples=100, sigma=1, device="cuda")
        if (self.work / "all-gpus/votes.jsonl").read_bytes() != (self.work / "bundled/votes.jsonl").read_bytes():
            raise Failed(gpu_report.agreement(self.compare("bundled", "all-gpus")))
        return f"{gpus} GPUs: the votes of one"

    def noise_votes(self):
        """Checks that the bundled model's votes do not depend on where the noise is made."""
        if not self.has("noise-on"):
            raise LeftOut("this rscert makes no noise on the device")
        n, examples = (500, 5) if self.args.quick else (10_000, 50)
        for way in ("host", "device"):
            self.certify(f"noise-{way}", *BUNDLED, "--noise-on", way, n=n, examples=examples, sigma=1)
        found = self.found["noise_votes"] = self.compare("noise-host", "noise-device")
        return gpu_report.agreement(found)

    def killed(self):
        """Checks that a run that was killed and resumed has the same bytes as an undisturbed run."""
        n, examples = (5000, 40) if self.args.quick else (50_000, 200)
        self.certify("whole", *BUNDLED, n=n, examples=examples)
        want = (self.work / "whole/certificates.jsonl").read_bytes()
        out, kills = self.work / "killed", 0
        command = [str(word) for word in (self.args.rscert, "certify", "--model", BUNDLED[0], "--data", BUNDLED[1], "--sigma", 0.5, "--n", n,
                                          "--max", examples, "--seed", 1, "--device", self.args.device, "--quiet", "--out", out, "--resume")]
        for share in (0.2, 0.6):
            process = subprocess.Popen(command, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while process.poll() is None and time.monotonic() < self.ends:
                time.sleep(0.002)
                if lines(out / "certificates.jsonl") >= share * examples:
                    process.kill()
                    break
            process.kill()
            kills += process.wait() == -signal.SIGKILL
        if kills == 0:
            raise Failed("the run ended before it was killed")
        at = lines(out / "certificates.jsonl")
        if at >= examples:
            raise Failed("the run was done when it was killed")
        self.rscert(*command[1:])
        for name in ("votes.jsonl", "certificates.jsonl"):
            if (out / name).read_bytes() != (self.work / "whole" / name).read_bytes():
                raise Failed(f"{name} differs from that of the run that was not killed")
        self.found["killed"] = {"kills": kills, "last_at": at, "examples": examples, "bytes": len(want)}
        return f"killed {kills} times, last at {at} of {examples} examples: the same bytes"

    def export(self, names):
        """Measures the networks in float32 and float16."""
        folder = self.args.models or self.work
        try:
            if not self.args.models:
                if not self.torch:
                    raise LeftOut("no PyTorch to make them with")
                self.gpu_torch("export", folder, *names, "--device", self.args.device if self.cuda else "cpu", limit=200)
        finally:
            self.models = {name: folder / f"{name}.onnx" for name in names if (folder / f"{name}.onnx").exists()}
        return ", ".join(self.models)

    def need(self, name):
        if name not in self.models:
            raise LeftOut("the model is not there")

    def speed(self, name):
        """Compares the speed of rscert with the speed of ONNX Runtime alone, at the same batch size."""
        self.need(name)
        row = self.found.setdefault("speed", {}).setdefault(name, {"batch": self.batch(name)})
        flags = ["--batch", row["batch"]]
        plan = self.plan(name, *flags)
        row["rscert"], row["start_seconds"] = plan["samples_per_second"], plan["start_seconds"]
        if self.has("noise-on"):  # the noise above is made on the device
            row["noise_on_host"] = self.plan(name, *flags, "--noise-on", "host")["samples_per_second"]
        row.update(self.alone(self.models[name], row["batch"]))
        # rscert splits a batch into several calls if results would depend on the batch size or if memory is short.
        run = self.certify(f"call-{name}", self.models[name], self.data(SIDES[name]), *flags, n=100, examples=1)
        row["call"] = run["runtime"]["call"]
        if row["call"] != row["batch"]:
            row["alone_in_calls"] = self.alone(self.models[name], row["call"]).get("alone")
        return gpu_report.speeds(row)

    def alone(self, model, batch):
        if not self.args.onnx_test.exists():
            return {"alone_missing": f"no {self.args.onnx_test.name}: 'go test -c -o bin/onnx.test ./internal/onnx' makes it where Go is"}
        seconds = "0.5s" if self.args.quick else "2s"
        env = {"RSCERT_BENCH_MODEL": str(model), "RSCERT_BENCH_DEVICE": self.args.device, "RSCERT_BENCH_BATCH": str(batch)}
        out = self.run(self.args.onnx_test, "-test.run", "^$", "-test.bench", "BenchmarkAlone$", "-test.benchtime", seconds,
                       limit=90, cwd=ROOT / "internal/onnx", env=env)
        rates = {}
        for line in out.splitlines():
            cells = line.split()
            if cells and cells[-1] == "samples/s":
                rates[cells[0].removeprefix("BenchmarkAlone/").rsplit("-", 1)[0]] = float(cells[-2])
        if not rates:
            raise Failed(f"BenchmarkAlone printed no samples/s: {out.strip()[-300:]}")
        best = {way: max(rate for name, rate in rates.items() if name.startswith(way)) for way in ("bound", "sent")}
        return {"alone_all": rates, "alone": best["bound"], "alone_sent": best["sent"]}

    def loop(self, name):
        """Measures the loop of Cohen et al. in PyTorch."""
        if not self.torch:
            raise LeftOut("no PyTorch")
        row = self.found.setdefault("speed", {}).setdefault(name, {"batch": self.batch(name)})
        row["torch"] = {}
        device, seconds = self.args.device if self.cuda else "cpu", 1 if self.args.quick else 2
        command = ["loop", name, "--device", device, "--batch", row["batch"], "--seconds", seconds]
        try:
            out = self.gpu_torch(*command, limit=45 if self.args.quick else 120)
        except subprocess.TimeoutExpired as error:  # the results before the time limit count
            out = error.output or ""
            row["torch"]["ended"] = f"after {error.timeout:.0f} s"
        for line in out.splitlines():
            said = json.loads(line)
            row["torch"][said.pop("way")] = said
        says = "; ".join(gpu_report.way(name, said) for name, said in row["torch"].items())
        if any("samples_per_second" not in row["torch"].get(way, {}) for way in gpu_report.WAYS):
            raise Failed(says)
        return says

    def example(self, name):
        """Times one example at n = 100,000, from the start of the process to its end."""
        self.need(name)
        n = 1000 if self.args.quick else 100_000
        run = self.certify(f"example-{name}", self.models[name], self.data(SIDES[name]), "--batch", self.batch(name), n=n, examples=1)
        self.found.setdefault("example", {})[name] = {"n": n, "seconds": run["seconds"]}
        return f"{run['seconds']:.1f} s for n = {n}"

    def option(self, name, option, *flags, model=None):
        """Measures the effect of options on speed and votes."""
        self.need(name)
        n = 200 if self.args.quick else 10_000
        base, data = f"plain-{name}", self.data(SIDES[name])
        if not (self.work / base / "run.json").exists():
            self.certify(base, self.models[name], data, "--batch", self.batch(name), n=n, examples=2)
        batch = [] if "--batch" in flags else ["--batch", self.batch(name)]
        folder, model = f"option-{name}-{option.replace(' ', '-')}", model or self.models[name]
        run = self.certify(folder, model, data, *batch, *flags, n=n, examples=2)
        kept, self.models[name] = self.models[name], model
        try:
            rate = self.plan(name, *batch, *flags)["samples_per_second"]
        finally:
            self.models[name] = kept
        differ, samples = apart(self.work / base, self.work / folder)
        row = {"model": name, "option": option, "samples_per_second": rate, "differ_at_least": differ, "samples": samples,
               "options": run["runtime"].get("options")}
        if model == kept:
            row["compare"] = self.compare(base, folder)
        self.found.setdefault("options", []).append(row)
        return f"{rate:,.0f} samples/s; at least {differ} of {samples} votes differ"

    def all(self):
        quick = self.args.quick
        names = self.args.names or (["resnet20"] if quick else list(BATCHES))
        self.step("machine", 120, self.machine)
        self.step("PyTorch", 90, self.about_torch)
        self.step("certify runs on the device", 120, self.runs)
        self.step("noise is the CPU's, bit for bit", 120, self.noise)
        self.step("votes with noise on the host and on the device", 60, self.noise_votes)
        self.step("killed and resumed", 90, self.killed)
        self.step("several GPUs", 60, self.several)
        self.step("make the networks", 200, lambda: self.export(names))
        for name in names:
            self.step(f"{name}: beside ONNX Runtime alone", 100, lambda: self.speed(name))
            self.step(f"{name}: PyTorch", 130, lambda: self.loop(name))
        for name in [name for name in ("resnet50", "resnet110") if name in names] or names[:1]:
            self.options(name)
        for name in names:
            self.step(f"{name}: one example", 240, lambda: self.example(name))
        bad = [s["step"] for s in self.found["steps"] if s["outcome"] == "failed"]
        print(f"{self.args.out}: {len(self.found['steps'])} steps, {len(bad)} failed", file=sys.stderr)
        return 1 if bad else 0

    def options(self, name):
        def flag(option, *flags):
            if not self.has(option) or not self.cuda:
                raise LeftOut(f"{'this rscert' if self.cuda else self.args.device} has no --{option}")
            return self.option(name, " ".join([option, *flags[1:]]), *(flags or [f"--{option}"]))

        self.step(f"{name}: TF32", 60, lambda: flag("allow-tf32"))
        self.step(f"{name}: NHWC", 60, lambda: flag("prefer-nhwc"))
        self.step(f"{name}: search for convolutions", 90, lambda: flag("conv-search", "--conv-search", "exhaustive"))
        self.step(f"{name}: float16", 60, lambda: self.half(name))
        for batch in (8, 32) if self.args.quick else (128, 4096) if SIDES[name] == 32 else (64, 512):
            self.step(f"{name}: batch {batch}", 60, lambda: self.option(name, f"batch {batch}", "--batch", str(batch)))

    def half(self, name):
        self.need(name)
        model = self.models[name].with_name(f"{name}-f16.onnx")
        if not model.exists():
            raise LeftOut(f"there is no {model.name}")
        return self.option(name, "float16 model", model=model)


def apart(a, b):
    """Returns a lower bound on the number of votes that differ, and the number of votes. To get the bound, it sums over
    all classes the votes that the first run has in excess of the second."""
    differ = samples = 0
    for x, y in zip(open(a / "votes.jsonl"), open(b / "votes.jsonl"), strict=True):
        x, y = json.loads(x), json.loads(y)
        for key in ("counts0", "counts"):
            differ += sum(max(0, i - j) for i, j in zip(x[key], y[key], strict=True))
            samples += sum(x[key])
    return differ, samples


def lines(path):
    try:
        return path.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def words(command, env=None):
    return shlex.join([*(f"{name}={value}" for name, value in (env or {}).items()), *map(str, command)])


def processor():
    try:
        return next(line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def write_pictures(path, side):
    """Writes two pictures of coloured squares, as bytes [2, 3, side, side], and their labels."""
    random, square = Random(1), side // 8
    rows = []
    for _ in range(2 * 3 * 8):
        row = b"".join(bytes([random.randrange(256)]) * square for _ in range(8))
        rows.append(row * square)

    def array(kind, shape, content):
        header = str({"descr": kind, "fortran_order": False, "shape": shape}).encode()
        header += b" " * (-(11 + len(header)) % 64) + b"\n"
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content

    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x.npy", array("|u1", (2, 3, side, side), b"".join(rows)))
        file.writestr("y.npy", array("<i8", (2,), struct.pack("<2q", 0, 1)))


def environment(args):
    """Returns the environment variables of all commands. They name the ONNX Runtime to use and the folders of the CUDA
    libraries in Python's wheels."""
    env = dict(os.environ)
    if not args.onnxruntime:
        return env
    library = args.onnxruntime
    if library.is_dir():
        found = sorted(library.glob("libonnxruntime.so*"))
        if not found:
            sys.exit(f"gpu_check.py: {library} has no libonnxruntime.so")
        library = found[-1]
    folders = [str(library.parent)]
    for place in sys.path:
        folders += sorted(glob.glob(f"{place}/nvidia/*/lib"))
    env["RSCERT_ONNXRUNTIME"] = str(library.resolve())
    env["LD_LIBRARY_PATH"] = ":".join([*folders, *filter(None, [env.get("LD_LIBRARY_PATH")])])
    return env


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n")[1])
    parser.add_argument("--device", default="cuda:0", help="the device of rscert: cuda:0, cuda:1; cpu for a dry run (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="few samples and one small model: to try this script")
    parser.add_argument("--onnxruntime", type=Path, metavar="PATH", help="library or its folder; CUDA libraries of Python's nvidia wheels are added")
    parser.add_argument("--rscert", type=Path, default=ROOT / "bin/rscert", help="the program (%(default)s)")
    parser.add_argument("--onnx-test", type=Path, default=ROOT / "bin/onnx.test", help="the tests of internal/onnx, compiled (%(default)s)")
    parser.add_argument("--python", default=sys.executable, help="a Python that has PyTorch (%(default)s)")
    parser.add_argument("--models", type=Path, metavar="FOLDER", help="take NAME.onnx (and NAME-f16.onnx) from here, do not make them")
    parser.add_argument("--names", nargs="+", choices=list(BATCHES), help="models (all; with --quick resnet20)")
    parser.add_argument("--minutes", type=float, default=10, help="time for all (%(default)s)")
    parser.add_argument("--out", type=Path, help="the report (docs/gpu-results.md; for a dry run, out/gpu-dry-run.md)")
    args = parser.parse_args()
    dry = not args.device.startswith("cuda")
    args.out = (args.out or (ROOT / "out/gpu-dry-run.md" if dry else RESULTS)).resolve()
    if dry and args.out == RESULTS:
        parser.error("docs/gpu-results.md is for runs on a GPU: give --out another name")
    if not dry and not shutil.which("nvidia-smi"):
        parser.error("there is no GPU here (no nvidia-smi); a dry run is --device cpu --quick")
    args.rscert, args.onnx_test = args.rscert.resolve(), args.onnx_test.resolve()
    if not args.rscert.exists():
        parser.error(f"{args.rscert} is not there: 'make build' makes it, or name it with --rscert")
    return args


def main():
    args = arguments()
    check = Check(args)
    try:
        return check.all()
    finally:
        shutil.rmtree(check.work)


if __name__ == "__main__":
    sys.exit(main())
