"""Runs the Python blocks of docs/training.md that need PyTorch."""

import re
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

from rscert.train.data import read  # noqa: E402

ROOT = Path(__file__).parents[2]
MARKED = re.compile(r"^<!-- run by: make train-check -->\n```python\n((?:.*\n)*?)```$", re.M)
BLOCKS = MARKED.findall((ROOT / "docs/training.md").read_text(encoding="utf-8"))


def test_there_are_blocks() -> None:
    assert len(BLOCKS) == 2


@pytest.mark.parametrize("block", BLOCKS)
def test_block(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x, y = read(ROOT / "testdata/mnist")
    batches = [(torch.tensor(x[i : i + 64]) / 255, torch.tensor(y[i : i + 64])) for i in (0, 64)]
    names = {"x_train": x[:256], "y_train": y[:256], "x_test": x[900:], "y_test": y[900:], "batches": batches}
    exec(compile(block, "docs/training.md", "exec"), names)
    if "run" in names:
        assert len(names["run"].certificates) == 20  # type: ignore[attr-defined]
        assert np.isfinite(names["run"].certificates.radius).all()  # type: ignore[attr-defined]


def test_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    import nbformat

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    (tmp_path / "docs").mkdir()
    (tmp_path / "testdata").symlink_to(ROOT / "testdata")
    notebook = nbformat.read(ROOT / "docs/train-and-certify.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path / "docs")}}).execute()
    made = tmp_path / "docs/train-and-certify"
    assert "</html>" in (made / "report.html").read_text(encoding="utf-8")
    (last,) = (o["data"]["text/plain"] for o in notebook.cells[3]["outputs"] if "data" in o)
    assert float(last.split("noisy_accuracy': ")[1].split(",")[0]) > 0.6
