"""The recipe of a model: how it was trained."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from importlib import metadata
from typing import Any

import numpy as np

from rscert.train.loop import Options
from rscert.train.noise import Noise

# The key of the recipe among the metadata of an ONNX file.
KEY = "rscert.recipe"
_PACKAGES = ("rscert", "torch", "numpy", "onnx", "onnxruntime")


def recipe(data: tuple[Any, Any], loss: Any, options: Options, **more: Any) -> dict[str, Any]:
    """Returns the recipe of a model that was trained with ``fit``: data, noise, loss, options and versions.

    ``more`` holds further facts, such as the network's name or the recipe of the model from which a fine-tuning began.
    """
    noise = getattr(loss, "noise", None)
    made = {
        "schema": "rscert/recipe/1",
        "data": {"sha256": data_sha256(data), "examples": len(data[1]), "shape": list(np.shape(data[0])[1:])},
        "noise": _noise(noise) if isinstance(noise, Noise) else None,
        "loss": plain(loss),
        "options": plain(options),
        "versions": {"python": platform.python_version(), **_versions()},
    }
    return {**made, **{name: plain(value) for name, value in more.items()}}


def text(made: Mapping[str, Any]) -> str:
    """Returns the recipe as it is stored: JSON with sorted keys. Its SHA-256 is ``model.recipe`` in a run.json."""
    return json.dumps(made, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def data_sha256(data: tuple[Any, Any]) -> str:
    """Returns the SHA-256 of inputs and classes: of their types and shapes as text, and their bytes in C order."""
    digest = hashlib.sha256()
    for values in data:
        array = np.ascontiguousarray(values)
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        digest.update(f"{array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def plain(value: Any) -> Any:
    """Returns a value as JSON types. A dataclass becomes an object with the key ``name``."""
    if is_dataclass(value) and not isinstance(value, type):
        return {"name": type(value).__name__, **{f.name: plain(getattr(value, f.name)) for f in fields(value)}}
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return repr(value)


def _noise(noise: Noise) -> dict[str, Any]:
    found: dict[str, Any] = {"law": noise.law, "scale": noise.scale, "step": None}
    if noise.step is not None:
        found |= {"step": str(noise.lattice), "table": noise.table.digest()}
    return found


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            if name == "rscert":
                from rscert import __version__

                found[name] = __version__
    return found
