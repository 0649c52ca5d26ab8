"""Runs of ``rscert certify``."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Unpack

import pandas as pd

from rscert._data import Data, Model, data_file, model_files
from rscert._options import CertifyOptions
from rscert._program import Requirement, flags, requirements, run, run_json
from rscert._signature import listed

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
        """The bounds on the confidence under attack. Only a run with ``confidence_radii`` has them."""
        path = self.folder / "bounds.csv"
        if not path.is_file():
            raise FileNotFoundError(f"{self.folder}: the run has no bounds on the confidence: certify with confidence_radii=[0.25]")
        return pd.read_csv(path)

    @cached_property
    def record(self) -> dict[str, Any]:
        """The content of run.json: model, data, parameters, noise and ONNX Runtime's library."""
        record: dict[str, Any] = json.loads((self.folder / "run.json").read_text())
        return record

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The certified accuracy by radius, the average radius and other figures, from ``rscert radius RUN --json``.

        ``clean_accuracy`` is the accuracy of the model without noise, and ``smoothed_accuracy`` is the accuracy of the
        smoothed classifier. Both come from ``rscert report RUN --json``. Without labels, both are None.
        """
        summary: dict[str, Any] = run_json(["radius", str(self.folder)])["methods"][0]
        report = json.loads(self._report())["runs"][0]
        for name in ("clean_accuracy", "smoothed_accuracy"):
            summary[name] = report.get(name, {}).get("value")
        return summary

    def require(self, *required: str) -> list[Requirement]:
        """Checks requirements, such as ``certified-accuracy@0.5>=0.60`` (docs/gate.md), and returns the results.

        Raises RequirementNotMet if a requirement is not met.
        """
        return requirements(self._report(*flags({"require": required})))

    def _report(self, *arguments: str) -> str:
        return run(["report", str(self.folder), "--json", *arguments])


@listed(CertifyOptions)
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
    logits, or of their probabilities with ``average="probabilities"``. ``data`` is the path of data in any format that
    ``rscert certify --data`` reads, a pair of arrays (x [N, …], y [N]), a torch Dataset of pairs (x, y), or a torch
    DataLoader, whose batches are certified in the order in which the loader returns them. The program divides bytes by
    255 and keeps floats as they are; ``sigma`` and the radii are in these units. ``out`` is the run folder; the default
    is a new temporary folder. ``help(rscert.CertifyOptions)`` explains the other options.

    Raises InputError for wrong options or input, RequirementNotMet if a requirement of ``require`` is not met, and
    Failed if the work fails. All these exceptions hold the program's hint.
    """
    if out is None:
        out = Path(tempfile.mkdtemp(prefix="rscert-")) / "run"
    with _command(model, data, sigma, options) as command:
        run_json([*command, "--out", os.fspath(out)], progress=progress)
    return Run(Path(out))


@contextlib.contextmanager
def _command(model: Model | Sequence[Model], data: Data, sigma: float, options: CertifyOptions) -> Iterator[list[str]]:
    """Returns the command ``rscert certify``. It writes models and data in memory to temporary files."""
    with tempfile.TemporaryDirectory(prefix="rscert-") as scratch:
        data_path, shape = data_file(data, Path(scratch))
        command = ["certify", "--data", data_path, "--sigma", str(sigma)]
        for path in model_files(model, shape, Path(scratch)):
            command += ["--model", path]
        yield command + flags(dict(options))


@dataclass(frozen=True)
class Finding:
    """The judgement of one aspect of a set-up: layout, scale, classes, labels or accuracy.

    ``outcome`` is ``suspect`` if the set-up is probably wrong, and ``unsure`` if the examples do not decide.
    """

    aspect: str
    outcome: Literal["ok", "unsure", "suspect"]
    text: str


@dataclass(frozen=True)
class Check:
    """The result of ``check``.

    The accuracies are those of the model without noise and with one draw of noise, on at most 200 examples; without
    labels they are None. ``seconds`` is the expected time of the whole run. ``document`` is the JSON document of
    ``rscert certify --check``.
    """

    verdict: tuple[Finding, ...]
    clean_accuracy: float | None
    noisy_accuracy: float | None
    seconds: float
    document: dict[str, Any] = field(repr=False)

    @property
    def suspects(self) -> tuple[Finding, ...]:
        """The findings about aspects that are probably wrong."""
        return tuple(f for f in self.verdict if f.outcome == "suspect")

    def __str__(self) -> str:
        return "\n".join(f"{f.aspect:8}  {f.outcome:7}  {f.text}" for f in self.verdict)


@listed(CertifyOptions)
def check(
    model: Model | Sequence[Model],
    data: Data,
    *,
    sigma: float,
    image: str | os.PathLike[str] | None = None,
    **options: Unpack[CertifyOptions],
) -> Check:
    """Tests without sampling whether model, data and noise fit each other, and returns a verdict.

    The arguments are those of ``certify``. ``image`` is the path of a PNG file to which the program writes a noisy
    example. The verdict has a finding for each aspect of the set-up; a suspect finding raises no exception.
    """
    with _command(model, data, sigma, options) as command:
        document = run_json([*command, "--check", *flags({"check_image": image})])
    look = document["look"]
    known = look["examples"] > 0
    return Check(
        verdict=tuple(Finding(f["aspect"], f["outcome"], f["text"]) for f in document["verdict"]),
        clean_accuracy=look["clean_accuracy"] if known else None,
        noisy_accuracy=look["noisy_accuracy"] if known else None,
        seconds=document["seconds"],
        document=document,
    )


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
