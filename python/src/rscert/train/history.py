"""The record of a training: one row for each epoch, in a CSV file and on TensorBoard."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict, cast


class Row(TypedDict):
    """The figures of one epoch."""

    epoch: int
    rate: float
    loss: float
    noisy_accuracy: float | None  # of the validation examples, each with one draw of the noise
    seconds: float


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Writes all rows. An interruption leaves the old file or the new file."""
    temporary = path.with_name(path.name + ".new")
    with temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(Row.__annotations__))
        writer.writeheader()
        writer.writerows(rows)
    os.replace(temporary, path)


class Board:
    """Writes rows for TensorBoard if the package tensorboard is installed; otherwise it does nothing."""

    def __init__(self, folder: Path) -> None:
        self._writer: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        self._writer = cast(Any, SummaryWriter)(str(folder))

    def write(self, row: Row) -> None:
        """Writes the figures of one epoch."""
        if self._writer is None:
            return
        for name, value in row.items():
            if name != "epoch" and value is not None:
                self._writer.add_scalar(name, value, row["epoch"])
        self._writer.flush()
