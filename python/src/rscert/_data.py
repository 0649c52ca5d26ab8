"""Models and data in memory as files for the program."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np

from rscert._program import InputError

if TYPE_CHECKING:
    import torch
    from torch.utils.data import DataLoader, Dataset

Model: TypeAlias = Union[str, "os.PathLike[str]", "torch.nn.Module"]
Data: TypeAlias = Union[str, "os.PathLike[str]", tuple[Any, Any], "Dataset[Any]", "DataLoader[Any]"]


def data_file(data: Data, scratch: Path) -> tuple[str, tuple[int, ...] | None]:
    """Returns the path of the data and, if the data are in memory, the shape of an example."""
    if isinstance(data, (str, os.PathLike)):
        return os.fspath(data), None
    x, y = (np.asarray(data[0]), np.asarray(data[1])) if isinstance(data, tuple) and len(data) == 2 else _stack(data)
    if y.shape != x.shape[:1]:
        raise InputError(f"data: want a label for each example, x has the shape {list(x.shape)} and y the shape {list(y.shape)}")
    path = scratch / "data.npz"
    np.savez(path, x=x, y=y)
    return str(path), x.shape[1:]


def _stack(data: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns the examples of a Dataset, a DataLoader or another iterable of pairs (x, y) as arrays."""
    if not hasattr(data, "__getitem__") and not hasattr(data, "__iter__"):
        raise InputError(f"data: want a path, a pair of arrays (x, y), a torch Dataset or a DataLoader, not {type(data).__name__}")
    batches = getattr(data, "batch_sampler", None) is not None  # a DataLoader with batch_size=None gives single examples
    inputs, labels = [], []
    for pair in _examples(data):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            given = f"a dict with the keys {', '.join(map(str, pair))}" if isinstance(pair, dict) else _described(pair)
            raise InputError(f"data: want pairs (x, y), the data give {given}")
        x, y = np.asarray(pair[0]), np.asarray(pair[1])
        inputs.append(x if batches else x[np.newaxis])
        labels.append(y if batches else y[np.newaxis])
    if not inputs:
        raise InputError("data: the dataset has no examples")
    shapes = {x.shape[1:] for x in inputs}
    if len(shapes) > 1:
        raise InputError(f"data: the examples have different shapes, such as {' and '.join(str(list(s)) for s in sorted(shapes)[:2])}")
    return np.concatenate(inputs), np.concatenate(labels)


def _described(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}s of {len(value)}"
    return type(value).__name__


def _examples(data: Any) -> Iterator[Any]:
    # Iterating over a torch Dataset by index does not end by itself.
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return (data[i] for i in range(len(data)))
    return iter(data)


def model_files(model: Model | Sequence[Model], shape: tuple[int, ...] | None, scratch: Path) -> list[str]:
    """Returns the paths of the models. It exports torch models to files in the folder 'scratch'."""
    if isinstance(model, str) or not isinstance(model, Sequence):
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
