"""Statistics of votes, bounds and predictions, computed by the program."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from rscert._certify import Run, read_certificates
from rscert._options import CceOptions, MetricsOptions, RadiusOptions
from rscert._program import flags, run_json
from rscert._signature import listed

Calibration: TypeAlias = dict[str, Any]


@listed(RadiusOptions)
def radius(
    counts: npt.ArrayLike,
    *,
    sigma: float,
    labels: npt.ArrayLike | None = None,
    counts0: npt.ArrayLike | None = None,
    **options: Unpack[RadiusOptions],
) -> pd.DataFrame:
    """Certifies votes and returns a frame like ``Run.certificates``.

    ``counts`` [N, m], or [m] for one example, holds the votes for each class under noise of standard deviation
    ``sigma``. The class to certify is the class with the most votes in ``counts0`` [N, m] or, without ``counts0``, the
    class in ``labels`` [N]. The votes in ``counts0`` must come from other samples than ``counts``.
    ``help(rscert.RadiusOptions)`` explains the other options.
    """
    votes = np.atleast_2d(np.asarray(counts))
    chosen = None if counts0 is None else np.atleast_2d(np.asarray(counts0))
    named = None if labels is None else np.atleast_1d(np.asarray(labels))
    if chosen is None and named is None:
        raise ValueError("who chooses the class to certify? give counts0, votes of other samples, or labels")
    for what, rows in (("counts0", chosen), ("labels", named)):
        if rows is not None and len(rows) != len(votes):
            raise ValueError(f"{len(rows)} rows of {what} for {len(votes)} of counts")
    if chosen is None:
        options.setdefault("class_", "label")
    with _scratch() as folder:
        with (folder / "votes.jsonl").open("w") as file:
            for i, row in enumerate(votes.tolist()):
                line: dict[str, Any] = {"index": i, "label": -1 if named is None else int(named[i])}
                if chosen is not None:
                    line |= {"n0": int(chosen[i].sum()), "counts0": chosen[i].tolist()}
                line |= {"n": sum(row), "counts": row}
                file.write(json.dumps(line) + "\n")
        out = folder / "certificates.jsonl"
        run_json(["radius", str(file.name), "--sigma", str(sigma), "--out", str(out), *flags(dict(options))])
        return read_certificates(out)


@listed(CceOptions)
def cce(
    lower: npt.ArrayLike, upper: npt.ArrayLike, correct: npt.ArrayLike, **options: Unpack[CceOptions]
) -> Calibration:
    """Computes calibration under attack: the certified Brier score and the certified calibration error.

    ``lower`` and ``upper`` [N] are bounds on each confidence under attack. ``correct`` [N] says whether each answer is
    right. ``help(rscert.CceOptions)`` explains the other options. Returns the JSON document of ``rscert acce``.
    """
    columns = {"lower": lower, "upper": upper, "correct": np.asarray(correct).astype(int)}
    with _scratch() as folder:
        return run_json(["acce", _table(folder, columns), *flags(dict(options))])


@listed(MetricsOptions)
def metrics(
    predictions: str | os.PathLike[str] | Run | None = None,
    *,
    confidence: npt.ArrayLike | None = None,
    correct: npt.ArrayLike | None = None,
    probabilities: npt.ArrayLike | None = None,
    labels: npt.ArrayLike | None = None,
    **options: Unpack[MetricsOptions],
) -> Calibration:
    """Returns the JSON document of ``rscert metrics``: ECE, Brier score, NLL and others, with confidence intervals.

    The input is ``predictions`` (a file or a Run), or ``confidence`` and ``correct`` (both [N]), or ``probabilities``
    [N, m] and ``labels`` [N]. ``help(rscert.MetricsOptions)`` explains the other options.
    """
    pairs = {"correct": (confidence, correct), "labels": (probabilities, labels)}
    given = [predictions is not None, *(any(v is not None for v in pair) for pair in pairs.values())]
    if sum(given) != 1 or any((a is None) != (b is None) for a, b in pairs.values()):
        raise ValueError("give predictions, or confidence and correct, or probabilities and labels")
    if isinstance(predictions, Run):
        return run_json(["metrics", str(predictions.folder), *flags(dict(options))])
    if predictions is not None:
        return run_json(["metrics", os.fspath(predictions), *flags(dict(options))])
    with _scratch() as folder:
        if confidence is not None:
            path = _table(folder, {"confidence": confidence, "correct": np.asarray(correct).astype(int)})
        else:
            path = str(folder / "predictions.npz")
            np.savez(path, probabilities=np.asarray(probabilities), labels=np.asarray(labels))
        return run_json(["metrics", path, *flags(dict(options))])


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rscert-") as folder:
        yield Path(folder)


def _table(folder: Path, columns: dict[str, Any]) -> str:
    """Writes a CSV table whose floats read back exactly."""
    arrays = {name: np.asarray(values) for name, values in columns.items()}
    if len({a.shape for a in arrays.values()}) != 1 or next(iter(arrays.values())).ndim != 1:
        raise ValueError("one value an example each: " + ", ".join(f"{n} {list(a.shape)}" for n, a in arrays.items()))
    path = folder / "table.csv"
    pd.DataFrame(arrays).to_csv(path, index=False)
    return str(path)
