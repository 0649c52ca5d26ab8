"""Training data in files."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

Arrays = tuple[npt.NDArray[np.generic], npt.NDArray[np.int64]]


def read(path: str | Path) -> Arrays:
    """Reads an .npz file with the arrays x and y, or a folder with one pair of MNIST's IDX files (also compressed).

    Images [N, H, W] and [N, H, W, C] become [N, C, H, W], as in the program.
    """
    path = Path(path)
    x, y = _read_idx(path) if path.is_dir() else _read_npz(path)
    if len(x) != len(y) or y.ndim != 1 or len(x) == 0:
        raise ValueError(f"{path}: inputs of shape {x.shape} and classes of shape {y.shape} do not fit")
    if not np.issubdtype(y.dtype, np.integer) or y.min() < 0:
        raise ValueError(f"{path}: the classes must be whole numbers from 0 on")
    return _channels_first(x), y.astype(np.int64)


def _read_npz(path: Path) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
    with np.load(path) as arrays:
        if missing := {"x", "y"} - set(arrays):
            raise ValueError(f"{path}: it has no array {' or '.join(sorted(missing))}")
        return arrays["x"], arrays["y"]


def _read_idx(folder: Path) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
    found = []
    for kind in ("*images-idx3-ubyte*", "*labels-idx1-ubyte*"):
        files = sorted(folder.glob(kind))
        if len(files) != 1:
            raise ValueError(f"{folder}: want one file {kind}, found {len(files)}")
        found.append(_idx(files[0]))
    return found[0], found[1]


def _idx(path: Path) -> npt.NDArray[np.uint8]:
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise ValueError(f"{path}: not an IDX file of bytes")
    rank = content[3]
    shape = struct.unpack_from(f">{rank}I", content, 4)
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * rank)
    if values.size != np.prod(shape):
        raise ValueError(f"{path}: the file is cut off")
    return values.reshape(shape)


def _channels_first(x: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    if x.ndim == 3:
        return x[:, None]
    if x.ndim == 4 and x.shape[-1] in (1, 3) and x.shape[1] not in (1, 3):
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    return x
