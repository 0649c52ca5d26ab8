"""The table that turns a random 64-bit word into an integer of lattice noise, as in the program's package
internal/smoothing."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rscert.train._masses import LAWS, LawName

_ETA_PLACES = 92


@dataclass(frozen=True)
class Table:
    """A distribution on the integers ``first``, …, ``last``.

    The word w draws the label min(w, entries[w mod 2ᵇ]) mod 2ᵇ, and with it the integer ``first`` + label (the alias
    method of Walker 1977 and Vose 1991, in integers). The number of entries is 2ᵇ.
    """

    name: str
    first: int
    last: int
    eta: float  # every integer has at most 1 + eta times its ideal probability
    entries: npt.NDArray[np.uint64]

    @property
    def bits(self) -> int:
        return len(self.entries).bit_length() - 1

    def integers(self, words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Returns the integers that the words draw."""
        mask = np.uint64(len(self.entries) - 1)
        labels = np.minimum(words, self.entries[words & mask]) & mask
        drawn: npt.NDArray[np.int64] = labels.astype(np.int64) + self.first
        return drawn

    def digest(self) -> str:
        """Returns the SHA-256 that a run of the program records under ``noise.table``."""
        head = f"rscert table 1 {self.name}\n".encode()
        numbers = struct.pack("<qqdQ", self.first, self.last, self.eta, self.bits)
        return hashlib.sha256(head + numbers + self.entries.astype("<u8").tobytes()).hexdigest()


@lru_cache(maxsize=32)
def law_table(law: LawName, scale: float, step: Fraction) -> Table:
    """Returns the table of ⌊(scale/step)·ε + ½⌋, where ε follows the law at scale 1."""
    ratio = LAWS[law].ratio(scale, step)
    first, masses = LAWS[law].masses(ratio)
    eta = _least_eta(masses)
    counts = [_cells(p, eta) for p in masses]
    mode = counts.index(max(counts))
    counts[mode] -= sum(counts) - 2**64
    while counts[0] == 0:
        counts, first = counts[1:], first + 1
    while counts[-1] == 0:
        counts.pop()
    columns = (len(counts) - 1).bit_length()
    entries = np.array(_aliases(counts, columns), dtype=np.uint64)
    return Table(f"{law} {ratio}", first, first + len(counts) - 1, float(Fraction(eta, 2**_ETA_PLACES)), entries)


def _cells(p: int, eta: int) -> int:
    """Returns ⌊p(1+η)2⁶⁴⌋ for p in units of 2⁻¹²⁸ and η in units of 2⁻⁹²."""
    return p * ((1 << _ETA_PLACES) + eta) >> (_ETA_PLACES + 64)


def _least_eta(masses: list[int]) -> int:
    """Returns the smallest η, in units of 2⁻⁹², for which the cells sum to at least 2⁶⁴."""
    low, high = 0, 1 << (_ETA_PLACES - 40)
    while low < high:
        middle = (low + high) // 2
        if sum(_cells(p, middle) for p in masses) >= 2**64:
            high = middle
        else:
            low = middle + 1
    return low


def _aliases(counts: list[int], columns: int) -> list[int]:
    """Returns the entries threshold·2ᵇ + alias. The program fills the columns in the same order."""
    full = 1 << (64 - columns)
    left = counts + [0] * ((1 << columns) - len(counts))
    entries = list(range(len(left)))
    small = [c for c, k in enumerate(left) if k < full]
    large = [c for c, k in enumerate(left) if k > full]
    while small:
        c, donor = small.pop(), large[-1]
        threshold = left[c] - (c < donor)
        entries[c] = threshold << columns | donor
        left[donor] -= full - left[c]
        if left[donor] <= full:
            large.pop()
            if left[donor] < full:
                small.append(donor)
    return entries
