"""Runs of ``rscert certify``."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Union, Unpack

import numpy as np
import pandas as pd

from rscert._program import flags, run_json

if TYPE_CHECKING:
    import torch
    from torch.utils.data import Dataset

    Model = Union[str, os.PathLike[str], "torch.nn.Module"]
    Data = Union[str, os.PathLike[str], tuple[Any, Any], "Dataset[Any]"]


class CertifyOptions(TypedDict, total=False):
    """The flags of ``rscert certify``, with ``_`` in place of ``-``; ``rscert certify --help`` explains the flags."""

    n: int
    n0: int
    alpha: float
    method: str
    class_: str
    margin: str
    lipschitz: float
    stop: str
    scores: bool
    save_scores: bool
    combine: str
    temperature: float
    confidence_radii: Sequence[float]
    confidence: str
    confidence_bound: str
    band: str
    outputs: str
    scores_output: str
    average: str
    mean: Sequence[float]
    std: Sequence[float]
    noise: str
    seed: int
    skip: int
    max: int
    select: str
    shard: str
    device: str
    precision: str
    batch: int
    threads: int
    onnxruntime: str
    resume: bool
    labels: str
    label_column: str
    first_label: int
    class_names: str
    resize: str
    crop: str
    interpolation: str
    layout: str


@dataclass(frozen=True)
class Run:
    """A run folder: run.json, votes.jsonl, certificates.jsonl and optional files such as bounds.csv."""

    folder: Path

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Run:
        """Opens the folder of an earlier run, made by this package or by the command ``rscert``."""
        if not Path(folder, "run.json").is_file():
            raise FileNotFoundError(f"{folder}: no run folder (it has no run.json)")
        return cls(Path(folder))

    @cached_property
    def certificates(self) -> pd.DataFrame:
        """A row for each example: index, label, prediction, correct, radius (L2, in units of the data), margin, …

        The columns ``p_a``, ``p_b`` and similar ones hold the confidence bounds from which the margin is computed.
        """
        return read_certificates(self.folder / "certificates.jsonl")

    @cached_property
    def votes(self) -> pd.DataFrame:
        """A row for each example: index, label, n0, counts0, n, counts, …"""
        return _read_lines(self.folder / "votes.jsonl")

    @cached_property
    def bounds(self) -> pd.DataFrame:
        """The bounds on the confidence under attack; only a run with ``confidence_radii`` has them."""
        return pd.read_csv(self.folder / "bounds.csv")

    @cached_property
    def record(self) -> dict[str, Any]:
        """The content of run.json: model, data, parameters, noise and ONNX Runtime's library."""
        record: dict[str, Any] = json.loads((self.folder / "run.json").read_text())
        return record

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The certified accuracy by radius, the average radius and other figures, from ``rscert radius RUN --json``."""
        summary: dict[str, Any] = run_json(["radius", str(self.folder)])["methods"][0]
        return summary


def certify(
    model: Model | Sequence[Model],
    data: Data,
    *,
    sigma: float,
    out: str | os.PathLike[str] | None = None,
    progress: bool = False,
    **options: Unpack[CertifyOptions],
) -> Run:
    """Certifies a classifier under Gaussian noise N(0, σ²I).

    ``model`` is the path of an ONNX file, or a ``torch.nn.Module``. A module is exported for inputs of the data's
    shape, in evaluation mode, on the CPU. A list or tuple of models is certified as one model, the average of their
    logits, or of their probabilities with ``average="probabilities"``. ``data`` is the path of data in any format that ``rscert certify --data``
    reads, a pair of arrays (x [N, …], y [N]), or a torch Dataset of pairs (x, y). The program divides bytes by 255 and
    keeps floats as they are; ``sigma`` and the radii are in these units. ``out`` is the run folder; the default is a
    new temporary folder.

    Raises InputError for wrong options or input, and Failed if the work fails. Both have the program's hint.
    """
    if out is None:
        out = Path(tempfile.mkdtemp(prefix="rscert-")) / "run"
    with contextlib.ExitStack() as open_folders:
        scratch = Path(open_folders.enter_context(tempfile.TemporaryDirectory(prefix="rscert-")))
        data_path, shape = _data_file(data, scratch)
        command = ["certify", "--data", data_path, "--sigma", str(sigma), "--out", os.fspath(out)]
        for path in _model_files(model, shape, scratch):
            command += ["--model", path]
        run_json(command + flags(dict(options)), progress=progress)
    return Run(Path(out))


def read_certificates(path: Path) -> pd.DataFrame:
    """Reads a certificates.jsonl. Each bound under the key ``bounds`` becomes a column."""
    frame = _read_lines(path)
    if "bounds" not in frame:
        return frame
    bounds = pd.DataFrame([b if isinstance(b, dict) else {} for b in frame.pop("bounds")], index=frame.index)
    bounds = bounds.rename(columns={name: f"{name}_bound" for name in bounds if name in frame})
    return pd.concat([frame, bounds], axis=1)


def _read_lines(path: Path) -> pd.DataFrame:
    # pandas.read_json would lose digits of floats.
    with path.open(encoding="utf-8") as lines:
        return pd.DataFrame([json.loads(line) for line in lines]).drop(columns="check", errors="ignore")


def _data_file(data: Data, scratch: Path) -> tuple[str, tuple[int, ...] | None]:
    """Returns the path of the data and, if the data are in memory, the shape of an example."""
    if isinstance(data, (str, os.PathLike)):
        return os.fspath(data), None
    if isinstance(data, tuple) and len(data) == 2:
        x, y = np.asarray(data[0]), np.asarray(data[1])
    else:
        x, y = _stack(data)
    path = scratch / "data.npz"
    np.savez(path, x=x, y=y)
    return str(path), x.shape[1:]


def _stack(data: Dataset[Any]) -> tuple[np.ndarray, np.ndarray]:
    inputs, labels = [], []
    for x, y in _examples(data):
        inputs.append(np.asarray(x))
        labels.append(int(y))
    if not inputs:
        raise ValueError("the dataset has no examples")
    return np.stack(inputs), np.asarray(labels)


def _examples(data: Any) -> Iterator[tuple[Any, Any]]:
    # Iterating over a torch Dataset by index does not end by itself.
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return (data[i] for i in range(len(data)))
    return iter(data)


def _model_files(model: Model | Sequence[Model], shape: tuple[int, ...] | None, scratch: Path) -> list[str]:
    """Returns the paths of the models. It exports torch models to files in the folder scratch."""
    if not isinstance(model, (list, tuple)):
        return [_model_file(model, shape, scratch / "model.onnx")]
    if not model:
        raise ValueError("the ensemble has no models")
    return [_model_file(m, shape, scratch / f"model-{i}.onnx") for i, m in enumerate(model, 1)]


def _model_file(model: Model, shape: tuple[int, ...] | None, path: Path) -> str:
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    if shape is None:
        raise TypeError("a torch model needs data in memory, arrays or a Dataset: they give the shape of its input")
    import copy

    import torch

    exported = copy.deepcopy(model).cpu().eval()
    torch.onnx.export(
        exported,
        (torch.zeros(1, *_channels_first(shape)),),
        str(path),
        input_names=["input"],
        output_names=["logits"],
        dynamic_axes={"input": {0: "batch"}, "logits": {0: "batch"}},
        dynamo=False,
    )
    return str(path)


def _channels_first(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of a torch model's input. The program turns images [H, W] and [H, W, C] into [C, H, W]."""
    if len(shape) == 2:
        return (1, *shape)
    if len(shape) == 3 and shape[-1] in (1, 3) and shape[0] not in (1, 3):
        return (shape[2], shape[0], shape[1])
    return shape
