"""Tests the types of rscert.train; without PyTorch, its classes have no types."""

import subprocess
import sys

import pytest


def test_types() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "-p", "rscert.train", "-m", "rscert._export"],
        capture_output=True, text=True, cwd="/",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
