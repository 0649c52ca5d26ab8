"""Tests the command ``python -m rscert.train`` and the reader of its data."""

import gzip
import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rscert

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

from rscert.train.__main__ import main  # noqa: E402
from rscert.train.data import read  # noqa: E402

ROOT = Path(__file__).parents[2]


@pytest.fixture
def bars(tmp_path: Path) -> Path:
    """Images 28 x 28 of two classes: a horizontal or a vertical bar."""
    r = np.random.default_rng(1)
    x, y = np.zeros((120, 28, 28), np.uint8), np.arange(120) % 2
    for image, label, place in zip(x, y, r.integers(4, 20, 120)):
        (image if label else image.T)[place : place + 5] = 255
    np.savez(tmp_path / "bars.npz", x=x, y=y)
    return tmp_path / "bars.npz"


def test_train_and_certify(bars: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "--data",
        bars,
        "--sigma",
        "0.25",
        "--epochs",
        "6",
        "--batch",
        "20",
        "--validation",
        "20",
        "--out",
        tmp_path / "out",
    ]
    assert main([*map(str, command), "--mean", "0.2", "--std", "0.4", "--threads", "1"]) == 0
    printed = capsys.readouterr()
    assert "next: rscert certify --model" in printed.out and "epoch 6 of 6" in printed.err
    made = json.loads((tmp_path / "out/model.recipe.json").read_text())
    assert made["loss"]["name"] == "Consistency" and made["data"]["examples"] == 100
    run = rscert.certify(tmp_path / "out/model.onnx", bars, sigma=0.25, n=200, max=20)
    assert run.certificates.correct.mean() > 0.9
    assert run.record["noise"]["table"] == made["noise"]["table"]


@pytest.mark.parametrize("loss", ["gaussian", "smoothadv", "brier-act", "acce-act"])
def test_every_loss(loss: str, bars: Path, tmp_path: Path) -> None:
    command = [
        "--data",
        str(bars),
        "--sigma",
        "0.25",
        "--epochs",
        "1",
        "--loss",
        loss,
        "--out",
        str(tmp_path / "out"),
        "--quiet",
    ]
    assert main(command) == 0
    assert (tmp_path / "out/model.onnx").exists()


def test_laws_and_own_networks(bars: Path, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\ndef make(): return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 2))\nnothing = 3\n"
    )
    base = ["--data", str(bars), "--sigma", "0.25", "--epochs", "1", "--quiet", "--law", "laplace"]
    assert main([*base, "--out", str(tmp_path / "a"), "--network", f"{tmp_path}/net.py:make"]) == 0
    assert json.loads((tmp_path / "a/model.recipe.json").read_text())["noise"]["law"] == "laplace"
    for wrong in ("net", f"{tmp_path}/net.py:nothing", f"{tmp_path}/none.py:make", "builtins:int"):
        assert main([*base, "--out", str(tmp_path / "b"), "--network", wrong]) == 2


def test_errors(bars: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ["--sigma", "0.25", "--epochs", "1", "--quiet", "--out", str(tmp_path / "out")]
    for wrong, text in (
        (["--data", str(tmp_path / "none.npz")], "No such file"),
        (["--data", str(bars), "--validation", "120"], "have 120 examples"),
        (["--data", str(bars), "--mean", "0.5"], "both or neither"),
        (["--data", str(bars), "--rate", "1e30", "--optimiser", "sgd", "--batch", "20"], "the loss is"),
    ):
        assert main([*base, *wrong]) in (1, 2)
        assert re.search(text, capsys.readouterr().err)


def test_the_module_runs() -> None:
    done = subprocess.run([sys.executable, "-m", "rscert.train", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "--sigma" in done.stdout


def test_reading(tmp_path: Path) -> None:
    x, y = read(ROOT / "testdata/mnist")
    assert x.shape == (1000, 1, 28, 28) and x.dtype == np.uint8 and np.bincount(y).tolist() == [100] * 10
    # The same digits as the program reads: the first ones, and a digest of all.
    with gzip.open(ROOT / "testdata/mnist/t10k-images-idx3-ubyte.gz") as file:
        assert struct.unpack(">4I", file.read(16))[1:] == (1000, 28, 28)
        assert file.read() == x.tobytes()
    colour = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    np.savez(tmp_path / "c.npz", x=colour, y=np.array([0, 1], np.uint8))
    assert (read(tmp_path / "c.npz")[0] == colour.transpose(0, 3, 1, 2)).all()
    for arrays, text in (
        ({"x": colour}, "no array y"),
        ({"x": colour, "y": np.array([1])}, "do not fit"),
        ({"x": colour, "y": np.array([0, -1])}, "from 0 on"),
        ({"x": colour, "y": np.array([0.0, 1.0])}, "whole numbers"),
    ):
        np.savez(tmp_path / "bad.npz", **arrays)
        with pytest.raises(ValueError, match=text):
            read(tmp_path / "bad.npz")
    (tmp_path / "idx").mkdir()
    with pytest.raises(ValueError, match="found 0"):
        read(tmp_path / "idx")
    (tmp_path / "idx/a-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01\0\0\0\x02\x01")
    (tmp_path / "idx/a-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + struct.pack(">3I", 1, 2, 2) + b"abcd")
    with pytest.raises(ValueError, match="cut off"):
        read(tmp_path / "idx")
