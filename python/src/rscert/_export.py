"""Export of PyTorch models to ONNX files with a recipe."""

from __future__ import annotations

import copy
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

# The number of random inputs on which the file is checked if the caller gives no examples.
_RANDOM = 64


@dataclass(frozen=True)
class Exported:
    """An exported model: its file, its SHA-256, and how far its outputs are from those of the PyTorch model."""

    path: Path
    sha256: str
    recipe: Path | None  # the file MODEL.recipe.json
    recipe_sha256: str | None  # ``rscert certify`` records it as model.recipe in run.json
    difference: float  # the largest absolute difference between two logits


def export(
    model: torch.nn.Module,
    path: str | os.PathLike[str],
    *,
    shape: Sequence[int],
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    recipe: Mapping[str, Any] | None = None,
    examples: Any = None,
    tolerance: float = 1e-3,
) -> Exported:
    """Writes a PyTorch classifier to an ONNX file, and checks the file's predictions against PyTorch's.

    ``shape`` is the shape of one input. With ``mean`` and ``std``, the file maps its input x to (x − mean)/std first,
    with one number for each channel. So ``rscert certify`` needs no flags for the normalisation, and adds the noise
    before the normalisation. The file is checked on ``examples`` [N, …] or, without examples, on random inputs. The
    examples are bytes, or the values that the file will receive. The ``recipe`` (see rscert.train.recipe) is stored in
    the file, and also as MODEL.recipe.json.

    Raises ValueError if the file's predictions differ from PyTorch's, or if the file's logits differ from PyTorch's by
    more than ``tolerance``.
    """
    import torch

    from rscert.train.loop import as_floats
    from rscert.train.networks import Standardise

    path = Path(path)
    if (mean is None) != (std is None):
        raise ValueError("mean and std: give both or neither")
    whole = copy.deepcopy(model).cpu()
    if mean is not None and std is not None:
        whole = torch.nn.Sequential(Standardise(list(mean), list(std)), whole)
    whole.eval()
    if examples is None:
        inputs = torch.rand(_RANDOM, *shape, generator=torch.Generator().manual_seed(0))
    else:
        inputs = as_floats(torch.as_tensor(examples))
    temporary = path.with_name(path.name + ".new")
    try:
        _write(whole, inputs, temporary, recipe)
        difference = _compare(whole, inputs, temporary, tolerance)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    beside, digest = _write_recipe(path, recipe)
    return Exported(path, hashlib.sha256(path.read_bytes()).hexdigest(), beside, digest, difference)


def _write(model: torch.nn.Module, inputs: torch.Tensor, path: Path, recipe: Mapping[str, Any] | None) -> None:
    import onnx
    import torch

    from rscert.train.recipe import KEY, text

    torch.onnx.export(
        model,
        (torch.zeros_like(inputs[:1]),),
        str(path),
        input_names=["input"],
        output_names=["logits"],
        dynamic_axes={"input": {0: "batch"}, "logits": {0: "batch"}},
        dynamo=False,
    )
    if recipe is None:
        return
    stored = onnx.load(path)
    onnx.helper.set_model_props(stored, {KEY: text(recipe)})
    onnx.save(stored, path)


def _compare(model: torch.nn.Module, inputs: torch.Tensor, path: Path, tolerance: float) -> float:
    """Returns the largest difference between a logit of the file and of the model."""
    import onnxruntime
    import torch

    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    largest = 0.0
    for part in torch.split(inputs, 256):
        with torch.no_grad():
            expected = model(part).numpy()
        found = session.run(None, {"input": part.numpy()})[0]
        if found.shape != expected.shape or found.ndim != 2:
            raise ValueError(
                f"the file's outputs have the shape {found.shape}, the model's {expected.shape}: want [N, classes]"
            )
        difference = float(np.abs(found - expected).max())
        if not difference <= tolerance:
            raise ValueError(
                f"a logit of the file differs by {difference:.3g} from PyTorch's; the tolerance is {tolerance:g}"
            )
        if wrong := int((found.argmax(1) != expected.argmax(1)).sum()):
            raise ValueError(f"the file predicts {wrong} of {len(part)} examples unlike PyTorch")
        largest = max(largest, difference)
    return largest


def _write_recipe(path: Path, recipe: Mapping[str, Any] | None) -> tuple[Path | None, str | None]:
    if recipe is None:
        return None, None
    from rscert.train.recipe import text

    written = text(recipe).encode()
    beside = path.with_suffix(".recipe.json")
    beside.write_bytes(written)
    return beside, hashlib.sha256(written).hexdigest()
