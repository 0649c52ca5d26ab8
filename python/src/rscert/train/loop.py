"""The training loop."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import nn

from rscert.train.average import Average
from rscert.train.history import Board, Row, write_csv
from rscert.train.noise import Noise
from rscert.train.schedule import Cosine, Schedule
from rscert.train.smooth import Batch


class Loss(Protocol):
    """A loss: a function of a model and a batch. A loss may have a method ``at(epoch)`` that returns the loss of an
    epoch."""

    def __call__(self, model: nn.Module, batch: Batch, generator: torch.Generator | None = None) -> torch.Tensor: ...


# An augmentation changes a batch of inputs [N, …] at random.
Augmentation = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


@dataclass(frozen=True)
class Options:
    """The settings of ``fit``."""

    epochs: int
    batch: int = 256
    optimiser: Literal["sgd", "adamw"] = "sgd"
    rate: float = 0.1
    momentum: float = 0.9  # of SGD
    weight_decay: float = 1e-4
    schedule: Schedule = field(default_factory=Cosine)
    average: float = 0.0  # decay of the moving average of the weights; 0 means no average
    seed: int = 0
    device: str = "cpu"


@dataclass
class Fitted:
    """The result of ``fit``: the model, which has the averaged weights if the options ask for them, and its history."""

    model: nn.Module
    rows: list[Row]


def fit(
    model: nn.Module,
    data: tuple[Any, Any],
    loss: Loss,
    options: Options,
    *,
    out: str | os.PathLike[str] | None = None,
    validation: tuple[Any, Any] | None = None,
    noise: Noise | None = None,
    augment: Augmentation | None = None,
    progress: bool = False,
) -> Fitted:
    """Trains a model.

    ``data`` is a pair of arrays or tensors: inputs [N, …] and classes [N]. Bytes are divided by 255. With ``out``, the
    folder gets log.csv and checkpoint.pt after each epoch; a call with the same folder and the same settings continues
    an interrupted training, and ends with the same weights. With ``validation`` and ``noise``, the log has the accuracy
    of the validation examples under noise. On one device and with one number of threads, equal seeds give equal
    weights.
    """
    device = torch.device(options.device)
    model = model.to(device)
    state = _State(model, _optimiser(model, options), _average(model, options), [])
    settings = repr((replace(options, device=""), loss, len(data[1])))
    folder = _prepare(out)
    if folder is not None:
        state.restore(folder / "checkpoint.pt", settings, device)
    board = Board(folder / "tensorboard") if folder is not None else None
    x, y = torch.as_tensor(data[0]), torch.as_tensor(data[1]).long()
    for epoch in range(len(state.rows), options.epochs):
        row = _epoch(state, x, y, _loss_at(loss, epoch), options, epoch, augment)
        if validation is not None and noise is not None:
            row["noisy_accuracy"] = noisy_accuracy(state.final(), validation, noise, seed=epoch, device=device)
        state.rows.append(row)
        if folder is not None:
            state.save(folder / "checkpoint.pt", settings)
            write_csv(folder / "log.csv", state.rows)
        if board is not None:
            board.write(row)
        if progress:
            print(_line(row, options.epochs), file=sys.stderr, flush=True)
    return Fitted(state.final().eval(), state.rows)


@torch.no_grad()
def noisy_accuracy(
    model: nn.Module,
    data: tuple[Any, Any],
    noise: Noise,
    *,
    seed: int = 0,
    batch: int = 500,
    device: torch.device | str = "cpu",
) -> float:
    """Returns the share of the examples that a model classifies correctly under one draw of the noise."""
    device = torch.device(device)
    generator = torch.Generator(device).manual_seed(seed)
    x, y = torch.as_tensor(data[0]), torch.as_tensor(data[1]).long()
    training = model.training
    model.eval()
    right = 0
    for rows in torch.split(torch.arange(len(x)), batch):
        answers = model(noise.add(as_floats(x[rows].to(device)), generator)).argmax(1)
        right += int((answers == y[rows].to(device)).sum())
    model.train(training)
    return right / len(x)


def as_floats(x: torch.Tensor) -> torch.Tensor:
    """Returns inputs as float32. Bytes are divided by 255."""
    return x.float() / 255 if x.dtype == torch.uint8 else x.float()


@dataclass
class _State:
    """Everything that an epoch changes."""

    model: nn.Module
    optimiser: torch.optim.Optimizer
    average: Average | None
    rows: list[Row]

    def final(self) -> nn.Module:
        return self.model if self.average is None else self.average.model

    def save(self, path: Path, settings: str) -> None:
        average = None if self.average is None else (self.average.model.state_dict(), self.average.updates)
        temporary = path.with_name(path.name + ".new")
        torch.save(
            {
                "settings": settings,
                "rows": self.rows,
                "model": self.model.state_dict(),
                "optimiser": self.optimiser.state_dict(),
                "average": average,
            },
            temporary,
        )
        os.replace(temporary, path)

    def restore(self, path: Path, settings: str, device: torch.device) -> None:
        if not path.exists():
            return
        saved = torch.load(path, map_location=device, weights_only=True)
        if saved["settings"] != settings:
            raise ValueError(
                f"{path} belongs to a training with other settings; choose another folder or remove it\n"
                f"there: {saved['settings']}\nhere:  {settings}"
            )
        self.rows = saved["rows"]
        self.model.load_state_dict(saved["model"])
        self.optimiser.load_state_dict(saved["optimiser"])
        if self.average is not None:
            weights, self.average.updates = saved["average"]
            self.average.model.load_state_dict(weights)


def _prepare(out: str | os.PathLike[str] | None) -> Path | None:
    if out is None:
        return None
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _average(model: nn.Module, options: Options) -> Average | None:
    return Average(model, options.average) if options.average > 0 else None


def _optimiser(model: nn.Module, options: Options) -> torch.optim.Optimizer:
    if options.optimiser == "sgd":
        return torch.optim.SGD(
            model.parameters(), options.rate, momentum=options.momentum, weight_decay=options.weight_decay
        )
    if options.optimiser == "adamw":
        return torch.optim.AdamW(model.parameters(), options.rate, weight_decay=options.weight_decay)
    raise ValueError(f"optimiser {options.optimiser!r}: want sgd or adamw")


def _loss_at(loss: Loss, epoch: int) -> Loss:
    at: Callable[[int], Loss] | None = getattr(loss, "at", None)
    return loss if at is None else at(epoch)


def _batches(count: int, size: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
    """Yields the rows of the batches in random order. It drops an incomplete last batch, unless it is the only one."""
    batches = torch.split(torch.randperm(count, generator=generator), size)
    full = [rows for rows in batches if len(rows) == size]
    yield from full or batches


def _epoch(
    state: _State,
    x: torch.Tensor,
    y: torch.Tensor,
    loss: Loss,
    options: Options,
    epoch: int,
    augment: Augmentation | None,
) -> Row:
    device, begun = torch.device(options.device), time.monotonic()
    # Every epoch has seeds of its own, so a resumed training draws the same numbers.
    seeds = np.random.SeedSequence([options.seed, epoch]).generate_state(3)
    order = torch.Generator().manual_seed(int(seeds[0]))
    generator = torch.Generator(device).manual_seed(int(seeds[1]))
    losses: list[float] = []
    state.model.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(seeds[2]))  # for random layers of the model, such as dropout
        batches = list(_batches(len(x), options.batch, order))
        for i, rows in enumerate(batches):
            rate = options.rate * options.schedule.factor(epoch + (i + 0.5) / len(batches), options.epochs)
            for group in state.optimiser.param_groups:
                group["lr"] = rate
            inputs = as_floats(x[rows].to(device))
            if augment is not None:
                inputs = augment(inputs, generator)
            value = loss(state.model, (inputs, y[rows].to(device)), generator)
            if not torch.isfinite(value):
                raise FloatingPointError(
                    f"epoch {epoch + 1}, batch {i + 1}: the loss is {value.item()}; try a lower rate"
                )
            state.optimiser.zero_grad()
            value.backward()  # type: ignore[no-untyped-call]
            state.optimiser.step()
            if state.average is not None:
                state.average.update(state.model)
            losses.append(float(value.detach()))
    seconds = time.monotonic() - begun
    return Row(epoch=epoch + 1, rate=rate, loss=float(np.mean(losses)), noisy_accuracy=None, seconds=round(seconds, 3))


def _line(row: Row, epochs: int) -> str:
    accuracy = row["noisy_accuracy"]
    shown = "" if accuracy is None else f", accuracy under noise {accuracy:.4f}"
    return f"epoch {row['epoch']} of {epochs}: loss {row['loss']:.4f}{shown}, {row['seconds']:.1f} s"
