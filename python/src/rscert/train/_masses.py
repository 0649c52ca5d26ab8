"""The probabilities of lattice noise, as whole numbers of 2⁻¹²⁸.

The module repeats the integer arithmetic of the program's package internal/law, so both get the same bits. The Go
sources derive the formulas and bound their errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isqrt
from typing import Literal

LawName = Literal["gaussian", "laplace", "uniform"]

# Masses holds the first integer and, for each integer from there on, a lower bound on its probability.
Masses = tuple[int, list[int]]

_PLACES = 256  # the integer x stands for x·2⁻²⁵⁶
_ONE = 1 << _PLACES


@dataclass(frozen=True)
class Law:
    """A law of noise: its limits for scale/step and its probabilities."""

    least: int  # the smallest ratio scale/step
    fine: int  # the ratio from which on rounding to the lattice adds almost nothing
    greatest: int  # ratios below greatest + 1 are allowed
    halves: bool  # a ratio within a factor 1 ± 2⁻⁵³ of a multiple of ½ counts as this multiple
    masses: Callable[[Fraction], Masses]

    def ratio(self, scale: float, step: Fraction) -> Fraction:
        """Returns scale/step for a table of the law."""
        ratio = Fraction(scale) / step
        if self.halves:
            half = Fraction(ceil(2 * ratio - Fraction(1, 2)), 2)
            if abs(ratio - half) <= half / 2**53:
                ratio = half
        if not self.least <= ratio < self.greatest + 1:
            raise ValueError(
                f"the scale {scale} is {float(ratio):.4g} steps of the lattice; "
                f"a table of noise has room for {self.least} to {self.greatest}"
            )
        return ratio

    def refine(self, scale: float, step: Fraction) -> int:
        """Returns the smallest number by which the step must be divided to make the ratio at least ``fine``."""
        return max(1, ceil(self.fine * step / Fraction(scale)))


def _multiply(x: int, y: int) -> int:
    return x * y >> _PLACES


def _divide(x: int, y: int) -> int:
    return (x << _PLACES) // y


def _quotient(x: int, y: int) -> int:
    """Returns x/y rounded towards zero, for y > 0."""
    return x // y if x >= 0 else -(-x // y)


def _mass(x: int) -> int:
    return max(0, x) >> (_PLACES - 128)


def _mirror(half: list[int]) -> Masses:
    """Returns the masses of −n, …, n from the masses of 0, …, n."""
    return 1 - len(half), half[:0:-1] + half


def _exponential(y: int) -> int:
    """Returns e^{−y} for 0 ≤ y ≤ 1."""
    total, term, n = _ONE, _ONE, 1
    while term:
        term = _quotient(_multiply(term, y), n)
        total += -term if n % 2 else term
        n += 1
    return total


def _arctan_inverse(n: int) -> int:
    power, square = _divide(1, n), n * n
    total, k = 0, 1
    while power:
        total += power // k if k % 4 == 1 else -(power // k)
        power //= square
        k += 2
    return total


def _inverse_root_two_pi() -> int:
    pi = (_arctan_inverse(5) << 4) - (_arctan_inverse(239) << 2)
    return isqrt((1 << (3 * _PLACES - 1)) // pi)


def _taylor_terms(t: int) -> int:
    s, log, k = _PLACES - t.bit_length() + 1, 0, 1
    while True:
        log += (2 * k - 1).bit_length() + (2 * k).bit_length() - 2
        if 2 * s * (2 * k + 1) + log >= 2 * 140:
            return k
        k += 1


def _gaussian(ratio: Fraction) -> Masses:
    """The mass of j is Φ((j+½)t) − Φ((j−½)t) with t = 1/ratio, by the Taylor series of φ about jt."""
    t = _divide(ratio.denominator, ratio.numerator)
    h2 = _multiply(t, t) >> 2
    two = h2 << 1
    r = _exponential(two)
    q = _multiply(r, r)
    phi = _inverse_root_two_pi()
    terms = _taylor_terms(t)
    slack = 1 << (_PLACES - 139)
    half = []
    for j in range(ceil(9 * ratio) + 1):
        hx = two * j
        c0, c1, total = 0, phi, phi
        for k in range(1, 2 * terms - 1):
            c2 = -_quotient((hx * c1 + h2 * c0) >> _PLACES, k)
            if k % 2 == 0:
                total += _quotient(c2, k + 1)
            c0, c1 = c1, c2
        half.append(_mass(_multiply(total, t) - slack))
        phi, r = _multiply(phi, r), _multiply(r, q)
    return _mirror(half)


def _laplace(ratio: Fraction) -> Masses:
    """The mass of 0 is 1 − a, and the mass of j is ½(1−q)·a·q^{j−1}, with a = e^{−t/2}, q = e^{−t} and t = 1/ratio."""
    t = _divide(ratio.denominator, ratio.numerator)
    a = _exponential(t >> 1)
    q = _multiply(a, a)
    slack = 1 << 28
    half = [_mass(_ONE - a - slack)]
    power = _multiply(_ONE - q, a) >> 1
    for _ in range(ceil(46 * ratio)):
        half.append(_mass(power - slack))
        power = _multiply(power, q)
    return _mirror(half)


def _uniform(ratio: Fraction) -> Masses:
    """Let W = 2·ratio. If W is whole, there are W integers of the mass 1/W. Otherwise the mass of j is the length of
    [j−½, j+½] ∩ [−W/2, W/2], divided by W."""
    width = 2 * ratio
    inner = _mass(_divide(width.denominator, width.numerator))
    if width.denominator == 1:
        return -(width.numerator // 2), [inner] * width.numerator
    last = ceil(ratio - Fraction(1, 2))
    end = (ratio - Fraction(2 * last - 1, 2)) / width
    return _mirror([inner] * last + [_mass(_divide(end.numerator, end.denominator))])


LAWS: dict[LawName, Law] = {
    "gaussian": Law(least=1, fine=30, greatest=3640, halves=False, masses=_gaussian),
    "laplace": Law(least=1, fine=30, greatest=710, halves=False, masses=_laplace),
    "uniform": Law(least=1, fine=1, greatest=2**15 - 2, halves=True, masses=_uniform),
}
