"""The bundled model and digits."""

import gzip
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "testdata/mnist-cnn.onnx"
DIGITS = ROOT / "testdata/mnist"


def digits(k: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first k digits, as bytes, and their labels."""
    x = gzip.open(next(DIGITS.glob("*images*"))).read()
    y = gzip.open(next(DIGITS.glob("*labels*"))).read()
    return (
        np.frombuffer(x, np.uint8, offset=16).reshape(-1, 1, 28, 28)[:k],
        np.frombuffer(y, np.uint8, offset=8)[:k].astype(int),
    )
