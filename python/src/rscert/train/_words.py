"""The program's random words: a pure function of seed, example, phase, sample and coordinate."""

from __future__ import annotations

from math import perm

import numpy as np
import numpy.typing as npt

_WORD = 1 << 64
_WEYL = 0x9E3779B97F4A7C15
_KEYS = 8 * perm(14, 7) * 14**8


def key(seed: int, example: int, phase: int) -> int:
    """Returns the key of an example's stream. The phase is 0 for selection samples and 1 for estimation samples."""
    if not (0 <= seed < _WORD and 0 <= example < 1 << 56 and phase in (0, 1)):
        raise ValueError(f"seed {seed}, example {example}, phase {phase}: out of range")
    n = _permute(seed, 2 * example + phase)
    while n >= _KEYS:
        n = _permute(seed, n)
    return _admissible(n)


def words(stream: int, sample: int, count: int) -> npt.NDArray[np.uint64]:
    """Returns the words of the coordinates 0, …, count − 1 of a sample (Squares, Widynski 2020, with a sum at the
    end)."""
    k = np.uint64(stream)
    start = np.uint64(sample * _WEYL * stream % _WORD)
    with np.errstate(over="ignore"):
        y = start + np.arange(count, dtype=np.uint64) * k
        z = y + k
        x = _rotate(y * y + y)
        x = _rotate(x * x + z)
        x = _rotate(x * x + y)
        t = x * x + z
        x = _rotate(t)
        found: npt.NDArray[np.uint64] = t + ((x * x + y) >> np.uint64(32))
    return found


def _rotate(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    half = np.uint64(32)
    rotated: npt.NDArray[np.uint64] = (x << half) | (x >> half)
    return rotated


def _mix(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % _WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB % _WORD
    return x ^ x >> 31


def _permute(seed: int, n: int) -> int:
    """Permutes [0, 2⁵⁸) by a Feistel network of six rounds."""
    left, right = n >> 29, n & ((1 << 29) - 1)
    for _ in range(6):
        seed = (seed + _WEYL) % _WORD
        left, right = right, left ^ _mix(right ^ _mix(seed)) >> 35
    return left << 29 | right


def _admissible(n: int) -> int:
    """Returns the key with number n among the keys whose hexadecimal digits follow Widynski's rules."""
    unused = list(range(1, 16))
    made = digit = 0
    for place in range(16):
        if place == 0:
            n, rest = divmod(n, 8)
            i = 2 * rest
            digit, unused[i] = unused[i], unused[0]
        elif place < 8:
            n, rest = divmod(n, 15 - place)
            i = place + rest
            digit, unused[i] = unused[i], unused[place]
        else:
            n, rest = divmod(n, 14)
            digit = rest + 1 + (rest + 1 >= digit)
        made |= digit << 4 * place
    return made
