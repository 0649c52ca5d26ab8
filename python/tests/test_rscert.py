"""Tests the installed wheel against the program in it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rscert
from rscert import _library

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "testdata/mnist-cnn.onnx"
DIGITS = ROOT / "testdata/mnist"
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


def digits(k: int) -> tuple[np.ndarray, np.ndarray]:
    import gzip

    x = gzip.open(next(DIGITS.glob("*images*"))).read()
    y = gzip.open(next(DIGITS.glob("*labels*"))).read()
    return (
        np.frombuffer(x, np.uint8, offset=16).reshape(-1, 1, 28, 28)[:k],
        np.frombuffer(y, np.uint8, offset=8)[:k].astype(int),
    )


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
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "-p", "rscert"],
        capture_output=True, text=True, cwd="/",
    )
    assert done.returncode == 0, done.stdout


def test_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    import nbformat

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(ROOT / "docs/first-steps.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(ROOT / "docs")}}).execute()
    shown = json.dumps(notebook)
    assert "certified_accuracy" in shown and "hint: " in shown
