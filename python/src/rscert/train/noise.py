"""The noise of training, drawn from the same tables as the noise of ``rscert certify``."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from rscert.train._masses import LAWS, LawName
from rscert.train._table import Table, law_table
from rscert.train._words import key, words

BYTE = Fraction(1, 255)


@dataclass(frozen=True)
class Noise:
    """Noise of a law that is added to inputs.

    ``scale`` is the standard deviation of the law ``gaussian``, the scale b of ``laplace``, or the half width λ of
    ``uniform``. It is in units of the data. ``step`` is the lattice of the data: 1/255 for images in [0, 1]. Like the
    program, the class divides this step if the scale needs a finer lattice. With ``step=None`` the noise is continuous;
    use it for data that lie on no lattice.

    The integers of the noise have the same probabilities as in the program, bit for bit. Training draws them with
    PyTorch's generator. ``program`` returns the inputs that ``rscert certify`` gives to a model.
    """

    law: LawName
    scale: float
    step: Fraction | None = BYTE

    def __post_init__(self) -> None:
        if self.law not in LAWS:
            raise ValueError(f"law {self.law!r}: want one of {', '.join(LAWS)}")
        if not 0 < self.scale < float("inf"):
            raise ValueError(f"scale {self.scale}: want a finite number above 0")

    def offsets(self, x: torch.Tensor, generator: torch.Generator | None = None) -> torch.Tensor:
        """Returns noise of the shape of x, in units of the data."""
        if self.step is None:
            return self._continuous(x, generator)
        return (self._integers(x.shape, x.device, generator).double() * float(self.lattice)).to(x.dtype)

    def add(self, x: torch.Tensor, generator: torch.Generator | None = None) -> torch.Tensor:
        """Returns x plus noise. On a lattice, each value is the float32 nearest to step·k, as in the program.

        On a lattice, x holds values of the lattice in [0, 1], such as bytes divided by 255.
        """
        if self.step is None:
            return x + self._continuous(x, generator)
        places = self._places(x) + self._integers(x.shape, x.device, generator) - self.table.first
        return self._values.to(x.device).take(places)

    def program(self, x: torch.Tensor, *, seed: int, example: int, phase: int, sample: int) -> torch.Tensor:
        """Returns the noisy input of one sample of ``rscert certify``, bit for bit.

        x is one example with values of the lattice in [0, 1]; ``seed`` and ``example`` are the run's seed and the
        example's index. The phase is 0 for selection samples and 1 for estimation samples.
        """
        drawn = self.table.integers(words(key(seed, example, phase), sample, x.numel()))
        return self._values[self._places(x) + torch.from_numpy(drawn).reshape(x.shape) - self.table.first]

    @cached_property
    def lattice(self) -> Fraction:
        """The step of the lattice on which the noise is drawn."""
        if self.step is None:
            raise ValueError("continuous noise has no lattice")
        return self.step / LAWS[self.law].refine(self.scale, self.step)

    @cached_property
    def table(self) -> Table:
        """The table of the noise. Its digest is ``noise.table`` in the run.json of a run with this noise."""
        return law_table(self.law, self.scale, self.lattice)

    @cached_property
    def _values(self) -> torch.Tensor:
        """The inputs step·k for k from table.first to 1/step + table.last."""
        last = int(1 / self.lattice) + self.table.last
        return torch.from_numpy(nearest_float32(self.lattice, self.table.first, last))

    @cached_property
    def _signed_entries(self) -> torch.Tensor:
        # PyTorch has signed words only. Flipping the highest bit keeps their order and their low bits.
        flipped = self.table.entries ^ np.uint64(1 << 63)
        return torch.from_numpy(flipped.view(np.int64))

    def _places(self, x: torch.Tensor) -> torch.Tensor:
        steps = x.double() / float(self.lattice)
        places = steps.round()
        if x.numel() and (float((steps - places).abs().max()) > 1e-3 or float(x.min()) < 0 or float(x.max()) > 1):
            raise ValueError(
                f"the inputs are not multiples of {self.lattice} in [0, 1]: give Noise the step of the data, "
                "or step=None for data on no lattice"
            )
        return places.long()

    def _integers(self, shape: torch.Size, device: torch.device, generator: torch.Generator | None) -> torch.Tensor:
        entries = self._signed_entries.to(device)
        lowest = torch.iinfo(torch.int64).min
        drawn = torch.empty(shape, dtype=torch.int64, device=device).random_(lowest, None, generator=generator)
        mask = len(entries) - 1
        return (torch.minimum(drawn, entries[drawn & mask]) & mask) + self.table.first

    def _continuous(self, x: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        empty = torch.empty_like(x)
        if self.law == "gaussian":
            return empty.normal_(0, self.scale, generator=generator)
        if self.law == "uniform":
            return empty.uniform_(-self.scale, self.scale, generator=generator)
        sign = torch.empty_like(x).bernoulli_(0.5, generator=generator) * 2 - 1
        return sign * empty.exponential_(1 / self.scale, generator=generator)


def gaussian(sigma: float, step: Fraction | None = BYTE) -> Noise:
    """Returns Gaussian noise N(0, σ²I), which certifies in the L2 norm."""
    return Noise("gaussian", sigma, step)


def laplace(b: float, step: Fraction | None = BYTE) -> Noise:
    """Returns Laplace noise of scale b, which certifies in the L1 norm."""
    return Noise("laplace", b, step)


def uniform(half_width: float, step: Fraction | None = BYTE) -> Noise:
    """Returns noise that is uniform on [−λ, λ], where λ is the half width. It certifies in the L1 norm."""
    return Noise("uniform", half_width, step)


def nearest_float32(step: Fraction, first: int, last: int) -> npt.NDArray[np.float32]:
    """Returns the float32 nearest to step·k for k = first, …, last."""
    return np.array([_nearest(step * k) for k in range(first, last + 1)], dtype=np.float32)


def _nearest(value: Fraction) -> np.float32:
    # float(value) is correctly rounded, but the second rounding to float32 can be off by one unit.
    middle = np.float32(float(value))
    near = [middle, np.nextafter(middle, np.float32(-np.inf)), np.nextafter(middle, np.float32(np.inf))]
    return min(near, key=lambda v: (abs(Fraction(float(v)) - value), int(np.float32(v).view(np.uint32)) & 1))
