"""Runs the Python blocks marked `run by: make wheel-test` in the pages, with the installed wheel."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundled import DIGITS, MODEL, ROOT, digits

PROGRAM = str(Path(sys.executable).parent / "rscert")
MARKED = re.compile(r"^<!-- run by: make wheel-test -->\n```python\n((?:.*\n)*?)```$", re.M)
PAGES = [ROOT / "README.md", ROOT / "python/README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [(page.relative_to(ROOT), block) for page in PAGES for block in MARKED.findall(page.read_text(encoding="utf-8"))]


def test_there_are_blocks() -> None:
    assert len(BLOCKS) >= 6


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that the pages' readers have from earlier steps."""
    folder = tmp_path_factory.mktemp("files")

    def rscert(*arguments: object) -> None:
        subprocess.run([PROGRAM, *map(str, arguments)], cwd=folder, check=True, capture_output=True)

    rscert("certify", "--model", MODEL, "--data", DIGITS, "--sigma=0.5", "--n=200", "--n0=20", "--max=8", "--save-scores", "--out=run")
    rscert("calibrate", ROOT / "testdata/calibration/logits.npz", "--method=vector", "--onnx=map.onnx")
    rscert("ce", ROOT / "testdata/calibration/scores.csv.gz", "--monotone", "--curve=curve.csv")
    shutil.copy(MODEL, folder / "model.onnx")
    return folder


@pytest.mark.parametrize(("page", "block"), BLOCKS, ids=lambda v: v.name if isinstance(v, Path) else "")
def test_block(page: Path, block: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    shutil.copytree(files, here)
    monkeypatch.chdir(here)
    monkeypatch.setenv("MPLBACKEND", "agg")
    import rscert

    certify = rscert.certify

    def shorter(model: Any, data: Any, **options: Any) -> rscert.Run:
        return certify(model, data, **options | {"n": 200, "max": 4})

    monkeypatch.setattr(rscert, "certify", shorter)
    x, y = digits(4)
    saved = np.load(files / "run/scores.npz")
    known: dict[str, Any] = {"model": MODEL, "data": DIGITS, "x": x, "y": y, "probs": saved["scores"], "labels": saved["labels"]}
    exec(compile(block, str(page), "exec"), known)
    if page.name == "metrics.md":
        # The page appended a calibration map to the model. rscert must accept the result as a model.
        subprocess.run([PROGRAM, "certify", "--model=calibrated.onnx", "--data", DIGITS, "--sigma=0.5", "--check"], check=True)
    if page.name == "scores.md":
        subprocess.run([PROGRAM, "radius", "scores.npz", "--method=betting", "--sigma=0.5", "--class=label"], check=True)
