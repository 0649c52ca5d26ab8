"""Tests the installed wheel against the program in it."""

import inspect
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bundled import DIGITS, MODEL, ROOT, digits

import rscert
from rscert import _library

SCRIPT = Path(sys.executable).parent / "rscert"


def command(*arguments: object, **kwargs: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([SCRIPT, *map(str, arguments)], capture_output=True, text=True, **kwargs)


def test_wheel_is_installed_not_the_source_tree() -> None:
    assert "site-packages" in rscert.__file__


def test_console_script_finds_the_library() -> None:
    done = command("doctor", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "site-packages/onnxruntime/capi/libonnxruntime" in json.dumps(found)
    import onnxruntime

    assert onnxruntime.__version__ in json.dumps(found)


def test_variable_and_flag_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RSCERT_ONNXRUNTIME", str(tmp_path / "other.so"))
    assert _library.VARIABLE not in _library.environment()
    with pytest.raises(rscert.RscertError, match="other.so"):
        rscert.certify(MODEL, DIGITS, sigma=0.5, n=100, max=1)
    monkeypatch.delenv("RSCERT_ONNXRUNTIME")
    with pytest.raises(rscert.RscertError, match="flag.so"):
        rscert.certify(MODEL, DIGITS, sigma=0.5, n=100, max=1, onnxruntime=str(tmp_path / "flag.so"))


@pytest.mark.parametrize("progress", [False, True])
def test_interrupt_ends_the_program(tmp_path: Path, progress: bool) -> None:
    """An interrupt of this process alone, as Jupyter sends it, ends a long run at once and leaves a folder to resume."""
    out = tmp_path / "run"
    code = (
        "import rscert\n"
        f"rscert.certify({str(MODEL)!r}, {str(DIGITS)!r}, sigma=0.5, n=10**9, max=50, out={str(out)!r}, progress={progress})"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as child:
        begun = time.monotonic()
        while not (out / "run.json").exists():
            assert child.poll() is None and time.monotonic() < begun + 120
            time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        _, printed = child.communicate(timeout=60)
    assert child.returncode != 0
    assert "KeyboardInterrupt" in printed


def test_second_interrupt_kills_the_program(tmp_path: Path) -> None:
    stubborn, started = tmp_path / "stubborn", tmp_path / "started"
    stubborn.write_text(f"#!/bin/sh\ntrap 'echo >>{started}' INT\necho >{started}\nwhile :; do sleep 0.1; done\n")
    stubborn.chmod(0o755)
    code = f"from rscert import _program\n_program.program = lambda: {str(stubborn)!r}\n_program.run([])"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as child:
        for interrupts in (0, 1):
            begun = time.monotonic()
            while not started.exists() or started.read_text().count("\n") <= interrupts:
                assert child.poll() is None and time.monotonic() < begun + 60
                time.sleep(0.1)
            child.send_signal(signal.SIGINT)
        _, printed = child.communicate(timeout=30)
    assert child.returncode != 0 and "KeyboardInterrupt" in printed


def test_certify_is_the_program_to_the_byte(tmp_path: Path) -> None:
    options = {"n": 1000, "max": 20, "seed": 3}
    run = rscert.certify(MODEL, DIGITS, sigma=0.5, out=tmp_path / "module", **options)  # type: ignore[arg-type]
    flags = [f"--{k}={v}" for k, v in options.items()]
    library = _library.environment()[_library.VARIABLE]
    # Runs the program itself, without the Python launcher.
    done = subprocess.run(
        [rscert.program(), "certify", "--model", MODEL, "--data", DIGITS, "--sigma=0.5", "--quiet"]
        + ["--out", tmp_path / "program", "--onnxruntime", library, *flags],
    )
    assert done.returncode == 0
    for name in ("certificates.jsonl", "votes.jsonl"):
        assert (run.folder / name).read_bytes() == (tmp_path / "program" / name).read_bytes()

    lines = [json.loads(line) for line in (run.folder / "certificates.jsonl").open()]
    frame = run.certificates
    assert list(frame.radius) == [line["radius"] for line in lines]
    assert list(frame.p_a) == [line["bounds"]["p_a"] for line in lines]
    assert list(frame["index"]) == list(range(20))
    assert frame.correct.dtype == bool and frame.sound.all()
    assert run.record["parameters"]["seed"] == 3
    assert run.summary["examples"] == 20 and run.summary["alpha"] == 0.001
    assert rscert.Run.open(run.folder).votes.counts.map(sum).eq(1000).all()


def test_arrays_and_datasets_are_the_files(tmp_path: Path) -> None:
    x, y = digits(8)
    of_file = rscert.certify(MODEL, DIGITS, sigma=0.5, n=500, max=8, seed=1)
    of_arrays = rscert.certify(MODEL, (x, y), sigma=0.5, n=500, seed=1)
    pd.testing.assert_frame_equal(of_file.certificates, of_arrays.certificates)

    class Pairs:  # has the methods that torch.utils.data.Dataset requires
        def __len__(self) -> int:
            return len(x)

        def __getitem__(self, i: int) -> tuple[np.ndarray, int]:
            return x[i], int(y[i])

    of_dataset = rscert.certify(MODEL, Pairs(), sigma=0.5, n=500, seed=1)  # type: ignore[arg-type]
    pd.testing.assert_frame_equal(of_file.certificates, of_dataset.certificates)
    assert of_dataset.record["data"]["sha256"] == of_arrays.record["data"]["sha256"]


def test_data_loader_gives_batches() -> None:
    torch = pytest.importorskip("torch")
    x, y = digits(8)
    of_arrays = rscert.certify(MODEL, (x, y), sigma=0.5, n=200, seed=1)
    data = torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y))
    for loader in (torch.utils.data.DataLoader(data, batch_size=3), torch.utils.data.DataLoader(data, batch_size=None)):
        of_loader = rscert.certify(MODEL, loader, sigma=0.5, n=200, seed=1)
        pd.testing.assert_frame_equal(of_arrays.certificates, of_loader.certificates)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([{"image": 1, "label": 2}], "pairs .*keys image, label"),
        ([(1, 2, 3)], "pairs .*tuples of 3"),
        ([], "no examples"),
        (7, "not int"),
        ([(np.zeros((1, 2, 2)), 0), (np.zeros((1, 3, 3)), 0)], "different shapes"),
        ((np.zeros((4, 1, 28, 28)), np.zeros(3, int)), "a label for each example"),
        ((np.zeros((4, 1, 28, 28)), np.zeros((4, 10))), "a label for each example"),
    ],
)
def test_unusable_data_are_refused(data: object, says: str) -> None:
    with pytest.raises(rscert.InputError, match=says):
        rscert.certify(MODEL, data, sigma=0.5)  # type: ignore[arg-type]


def test_arrays_are_options() -> None:
    x, y = digits(4)
    same = {"sigma": 0.5, "n": np.int64(200), "seed": 1}
    of_list = rscert.certify(MODEL, (x, y), mean=[0.25], std=[0.5], **same)  # type: ignore[arg-type]
    of_array = rscert.certify(MODEL, (x, y), mean=np.full((1, 1, 1), 0.25), std=np.float32(0.5), **same)  # type: ignore[arg-type]
    assert of_list.record["parameters"]["mean"] == of_array.record["parameters"]["mean"] == [0.25]
    pd.testing.assert_frame_equal(of_list.certificates, of_array.certificates)
    for wrong in (np.zeros((2, 2)), {"r": 0.5}):
        with pytest.raises(rscert.InputError, match="mean: want a number"):
            rscert.certify(MODEL, (x, y), sigma=0.5, mean=wrong)  # type: ignore[arg-type]


def test_check_returns_the_verdict(tmp_path: Path) -> None:
    x, y = digits(100)
    right = rscert.check(MODEL, (x, y), sigma=0.5, image=tmp_path / "noisy.png")
    assert [f.aspect for f in right.verdict] == ["layout", "scale", "classes", "labels", "accuracy"]
    assert right.suspects == () and right.clean_accuracy is not None and right.clean_accuracy > 0.9
    assert right.seconds > 0 and (tmp_path / "noisy.png").read_bytes().startswith(b"\x89PNG")
    with pytest.warns(RuntimeWarning, match="near chance"):
        wrong = rscert.check(MODEL, (x, 9 - y), sigma=0.5)
    assert "labels" in [f.aspect for f in wrong.suspects]
    assert "suspect" in str(wrong) and wrong.document["schema"] == "rscert/check/1"


def test_requirement_has_its_value() -> None:
    required = ["clean-accuracy>=0.5", "certified-accuracy@3>=0.99"]
    run = rscert.certify(MODEL, DIGITS, sigma=0.5, n=200, max=8, seed=1, require=required[0])
    (met,) = run.require(required[0])
    assert met.met and met.value == run.summary["clean_accuracy"]

    def certify() -> None:
        rscert.certify(MODEL, DIGITS, sigma=0.5, n=200, max=8, seed=1, require=required)

    for fails in (lambda: run.require(*required), certify):
        with pytest.raises(rscert.RequirementNotMet) as caught:
            fails()
        assert caught.value.requirement == required[1] and caught.value.value == 0
        assert [r.met for r in caught.value.requirements] == [True, False]
        assert required[1] in str(caught.value)


def test_summary_has_accuracies() -> None:
    run = rscert.certify(MODEL, DIGITS, sigma=0.5, n=200, max=20, seed=1)
    assert run.summary["smoothed_accuracy"] == run.certificates.correct.mean()
    assert run.summary["clean_accuracy"] == (run.votes.clean == run.votes.label).mean()


def test_run_without_bounds_says_so() -> None:
    run = rscert.certify(MODEL, DIGITS, sigma=0.5, n=200, max=2, seed=1)
    with pytest.raises(FileNotFoundError, match="confidence_radii"):
        run.bounds
    run = rscert.certify(MODEL, DIGITS, sigma=0.5, n=200, max=2, seed=1, confidence_radii=[0.25, 0.5])
    assert sorted(set(run.bounds.radius)) == [0.25, 0.5]


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (rscert.certify, rscert.CertifyOptions),
        (rscert.check, rscert.CertifyOptions),
        (rscert.radius, rscert.RadiusOptions),
        (rscert.cce, rscert.CceOptions),
        (rscert.metrics, rscert.MetricsOptions),
    ],
)
def test_signatures_list_the_options(function: Callable[..., object], options: type) -> None:
    names = inspect.signature(function).parameters
    assert set(options.__annotations__) <= set(names) and "options" not in names
    assert all(f"\n    {name}: " in (options.__doc__ or "") for name in options.__annotations__)


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("certify", rscert.CertifyOptions),
        ("radius", rscert.RadiusOptions),
        ("acce", rscert.CceOptions),
        ("metrics", rscert.MetricsOptions),
    ],
)
def test_options_are_flags_of_the_program(command: str, options: type) -> None:
    """TestPythonOptions in cmd/rscert also compares the types, and finds flags without an option."""
    shown = subprocess.run([rscert.program(), command, "--help"], capture_output=True, text=True, check=True).stdout
    for name in options.__annotations__:
        assert f"  --{name.rstrip('_').replace('_', '-')} " in shown, name


def test_torch_module_is_exported() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnx")
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10), torch.nn.Dropout(0.5)).train()
    x, y = digits(4)
    weights = model[1].weight.detach().numpy(), model[1].bias.detach().numpy()
    labels = (x.reshape(4, -1) / 255.0) @ weights[0].T + weights[1]
    data = torch.utils.data.TensorDataset(torch.tensor(x / np.float32(255)), torch.tensor(labels.argmax(1)))
    run = rscert.certify(model, data, sigma=0.001, n=200, seed=1)
    # With almost no noise the predictions follow from the weights, without dropout.
    assert list(run.certificates.prediction) == list(labels.argmax(1))
    assert model.training


def test_ensemble_is_the_program_to_the_byte(tmp_path: Path) -> None:
    models = [MODEL, ROOT / "testdata/mnist-torch.onnx"]
    run = rscert.certify(models, DIGITS, sigma=0.25, n=500, max=8, seed=3, out=tmp_path / "module")
    flags = [flag for model in models for flag in ("--model", str(model))]
    done = command(
        "certify", *flags, "--data", DIGITS, "--sigma=0.25", "--n=500", "--max=8", "--seed=3", "--quiet", "--out", tmp_path / "program"
    )
    assert done.returncode == 0, done.stderr
    for name in ("certificates.jsonl", "votes.jsonl"):
        assert (run.folder / name).read_bytes() == (tmp_path / "program" / name).read_bytes()
    assert len(run.record["model"]["members"]) == 2
    with pytest.raises(rscert.InputError, match="average"):
        rscert.certify(models, DIGITS, sigma=0.25, n=500, max=8, average="median")
    with pytest.raises(ValueError, match="no models"):
        rscert.certify([], DIGITS, sigma=0.25)


def test_ensemble_of_torch_modules() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnx")
    x, y = digits(4)
    models = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        models.append(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10)))
    run = rscert.certify(models, (x / np.float32(255), y), sigma=0.001, n=200, seed=1)
    # With almost no noise the predictions follow from the mean of the logits.
    logits = sum(m(torch.tensor(x / np.float32(255))).detach().numpy() for m in models)
    assert list(run.certificates.prediction) == list(logits.argmax(1))


def test_radius_is_that_of_the_run() -> None:
    run = rscert.certify(MODEL, DIGITS, sigma=0.5, n=500, max=6, seed=1)
    votes = run.votes
    frame = rscert.radius(votes.counts.tolist(), counts0=votes.counts0.tolist(), labels=votes.label, sigma=0.5)
    assert list(frame.radius) == list(run.certificates.radius)
    one = rscert.radius([990, 10], labels=0, sigma=1.0, method="clopper-pearson", alpha=0.01)
    # Clopper-Pearson: the α-quantile of Beta(990, 11) is 0.9805…, and Φ⁻¹(0.9805…) is 2.06….
    assert 2.05 < one.radius[0] < 2.08
    with pytest.raises(ValueError, match="chooses the class"):
        rscert.radius([[1, 2]], sigma=1.0)
    with pytest.raises(ValueError, match="rows of labels"):
        rscert.radius([[1, 2]], labels=[0, 1], sigma=1.0)


def test_cce() -> None:
    # There is one correct answer, with a confidence in [0.2, 0.9]. The worst confidence is 0.2. It gives the Brier score
    # 0.64 and the calibration error 0.8.
    found = rscert.cce([0.2], [0.9], [1], bins=10)
    text = json.dumps(found)
    assert "0.8" in text and "0.64" in text
    with pytest.raises(ValueError, match="lower"):
        rscert.cce([0.2], [0.9, 1], [1])


def test_metrics() -> None:
    found = rscert.metrics(confidence=[0.9, 0.8, 0.7, 0.6], correct=[True, False, False, True], bins=1)
    # With one bin, the ECE is |mean confidence − accuracy|.
    assert abs(_value(found, "ece") - 0.25) < 1e-9
    both = rscert.metrics(probabilities=[[0.9, 0.1], [0.2, 0.8]], labels=[0, 0], bins=1)
    assert abs(_value(both, "ece") - 0.35) < 1e-9
    with pytest.raises(ValueError, match="give predictions"):
        rscert.metrics(confidence=[0.5])


def _value(found: dict, name: str) -> float:
    value = found[name]
    return value["value"] if isinstance(value, dict) else value


def test_errors_have_message_and_hint() -> None:
    with pytest.raises(rscert.InputError, match="no-such.onnx") as caught:
        rscert.certify("no-such.onnx", DIGITS, sigma=0.5)
    assert "no-such.onnx" in caught.value.message and "\n" not in caught.value.message
    with pytest.raises(rscert.InputError) as caught:
        rscert.certify(MODEL, DIGITS, sigma=0.5, alphas=0.1)  # type: ignore[call-arg]
    assert "--alphas" in caught.value.message and "--help" in (caught.value.hint or "")
    assert command("certify", "--sigma", "x").returncode == 2


def test_library_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    info, capi = site / "onnxruntime-1.30.0.dist-info", site / "onnxruntime/capi"
    info.mkdir(parents=True)
    capi.mkdir(parents=True)
    (capi / "libonnxruntime.so.1.30.0").write_bytes(b"12345")

    def install(version: str, size: int, hashed: str = "") -> None:
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: onnxruntime\nVersion: {version}\n")
        record = f"onnxruntime/capi/libonnxruntime.so.1.30.0,{hashed},{size}\nonnxruntime/capi/libonnxruntime_providers_shared.so,,1\n"
        (info / "RECORD").write_text(record)

    monkeypatch.setattr(sys, "path", [str(site), *(p for p in sys.path if "site-packages" not in p)])
    install("1.30.0", 5)
    assert _library.find("onnxruntime") == (capi / "libonnxruntime.so.1.30.0").resolve()
    assert _library.find("onnxruntime-gpu") is None
    install("1.30.0", 6)
    with pytest.raises(_library.Unusable, match="another package has replaced"):
        _library.find("onnxruntime")
    of_12345 = "sha256=WZRHGrsBESr8wYFZ9sx0tPURuZgG2lmzyvWpwXPKz8U"  # base64 of sha256, as in the wheels' lists
    install("1.30.0", 5, of_12345)
    assert _library.find("onnxruntime")
    for other in (of_12345.replace("z8U", "z8V"), "md5=gnzLDuqKcGxMNKiokfhOew"):
        install("1.30.0", 5, other)
        with pytest.raises(_library.Unusable, match="not the file that onnxruntime installed"):
            _library.find("onnxruntime")
    monkeypatch.chdir(site)
    install("1.30.0", 5)
    assert _library.find("onnxruntime") is None  # find ignores packages in the current folder
    monkeypatch.chdir(tmp_path)
    install("1.24.0", 5)
    assert _library.find("onnxruntime")
    install("1.23.2", 5)
    with pytest.raises(_library.Unusable, match="too old"):
        _library.find("onnxruntime")
    (info / "METADATA").unlink()
    (info / "RECORD").unlink()


def test_nothing_in_the_current_folder_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = tmp_path / "ran"
    trap = tmp_path / "trap"
    trap.mkdir()
    for module in ("pip", "site", "sysconfig", "json", "hashlib", "base64", "rscert", "onnxruntime", "nvidia", "numpy"):
        (trap / f"{module}.py").write_text(f"open({str(ran)!r}, 'a').write('{module} ')\n")
    for program in ("python3", "rscert", "nvidia-smi"):
        (trap / program).write_text(f"#!/bin/sh\necho {program} >>{ran}\n")
        (trap / program).chmod(0o755)
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    done = command("doctor", "--json", cwd=trap)
    assert done.returncode == 0, done.stderr
    assert not ran.exists(), ran.read_text()


def test_types() -> None:
    pytest.importorskip("mypy")
    # Without PyTorch, rscert.train has no types; test_train_types.py checks it.
    names = sorted(f.stem for f in Path(rscert.__file__).parent.glob("*.py") if f.stem != "__init__")
    modules = ["--module=rscert", *(f"--module=rscert.{name}" for name in names)]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--follow-imports=silent", *modules],
        capture_output=True, text=True, cwd="/",
    )
    assert done.returncode == 0, done.stdout


def test_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The notebook runs in an empty folder."""
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("sklearn")
    pytest.importorskip("onnx")
    import nbformat

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(ROOT / "docs/first-steps.ipynb", as_version=4)
    here = tmp_path / "here"
    here.mkdir()
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(here)}}).execute()
    shown = json.dumps(notebook)
    assert "hint: " in shown and "certified-accuracy@0.25>=0.999" in shown
    assert "suspect  " not in shown
