"""Tests the types of rscert.train; without PyTorch, its classes have no types."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import rscert


def test_types() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "-p", "rscert.train", "-m", "rscert._export"],
        capture_output=True, text=True, cwd="/",
        env={**os.environ, "MYPYPATH": "" if "site-packages" in rscert.__file__ else str(Path(rscert.__file__).parents[1])},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
