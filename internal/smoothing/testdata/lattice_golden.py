"""Golden vectors of the lattice noise. This script follows the definitions in the comments of table.go, words.go and
stream.go, and of gaussian_masses.go in package law. It uses Python integers and mpmath's erfc, and shares no code with
Go.

    python3 lattice_golden.py > lattice_golden.json
"""
import hashlib
import json
from fractions import Fraction as F

import mpmath

mpmath.mp.prec = 300
W = 1 << 64
G = 0x9E3779B97F4A7C15


def mix(x):
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % W
    x = (x ^ x >> 27) * 0x94D049BB133111EB % W
    return x ^ x >> 31


def permute(seed, n):
    left, right = divmod(n, 1 << 29)
    for i in range(1, 7):
        f = mix(right ^ mix((seed + i * G) % W)) >> 35
        left, right = right, left ^ f
    return left << 29 | right


def key_number(n):
    digits = []
    unused = list(range(1, 16))
    n, i = divmod(n, 8)
    digits.append(unused[2 * i])
    unused[2 * i] = unused[0]
    for place in range(1, 8):
        n, i = divmod(n, 15 - place)
        digits.append(unused[place + i])
        unused[place + i] = unused[place]
    for place in range(8, 16):
        n, i = divmod(n, 14)
        digits.append([d for d in range(1, 16) if d != digits[-1]][i])
    return int("".join("%x" % d for d in reversed(digits)), 16)


def key_of(seed, example, phase):
    count = 8 * 14 * 13 * 12 * 11 * 10 * 9 * 8 * 14**8
    n = permute(seed, 2 * example + phase)
    while n >= count:
        n = permute(seed, n)
    return key_number(n)


def word(key, sample, d):
    def rot(x):
        x %= W
        return (x << 32) % W + (x >> 32)

    y = (sample * G + d) * key % W
    z = (y + key) % W
    x = rot(y * y + y)
    x = rot(x * x + z)
    x = rot(x * x + y)
    t = (x * x + z) % W
    x = rot(t)
    return (t + ((x * x + y) % W >> 32)) % W


def masses(ratio):
    """2¹²⁸·p_j, rounded down, for |j| ≤ ⌈9·ratio⌉."""
    t = mpmath.mpf(ratio.denominator) / ratio.numerator / mpmath.sqrt(2)
    last = -((-9 * ratio.numerator) // ratio.denominator)
    tails = [mpmath.erfc((j - mpmath.mpf(1) / 2) * t) / 2 for j in range(last + 2)]
    half = [int(mpmath.floor((a - b) * 2**128)) for a, b in zip(tails, tails[1:])]
    return half[:0:-1] + half


def cells(p, eta):
    return [q * (2**92 + eta) >> (92 + 64) for q in p]


def table(ratio):
    p = masses(ratio)
    low, high = 0, 2**52
    while low + 1 < high:
        middle = (low + high) // 2
        if sum(cells(p, middle)) >= 2**64:
            high = middle
        else:
            low = middle
    q = cells(p, high)
    first = -(len(q) // 2)
    q[q.index(max(q))] -= sum(q) - 2**64
    while q[0] == 0:
        q, first = q[1:], first + 1
    while q[-1] == 0:
        q = q[:-1]
    digest = hashlib.sha256(b"".join(c.to_bytes(8, "little") for c in q)).hexdigest()
    return {"ratio": str(ratio), "first": first, "labels": len(q), "eta": high, "masses": digest}


def main():
    tables = [table(r) for r in [F(1), F(2), F(30), F(153, 5), F(255, 4), F(255, 2), F(255), F(510), F(1020), F(3640)]]
    # σ = 0.12, as a float64, on bytes.
    tables.append(table(F(0.12) * 255))
    words = []
    for seed, example, phase in [(1, 0, 0), (1, 0, 1), (1, 1, 1), (W - 1, 49999, 0), (20240607, 2**56 - 1, 1)]:
        key = key_of(seed, example, phase)
        for sample in [0, 1, 99999, 2**31 - 1]:
            ds = [0, 1, 2, 3, 783, 3071, 150527]
            words.append({
                "seed": str(seed), "example": str(example), "phase": phase, "sample": sample,
                "coordinates": ds, "words": ["%016x" % word(key, sample, d) for d in ds],
            })
    text = json.dumps({"tables": tables, "words": words}, separators=(",", ":"))
    print(text.replace("},{", "},\n{"))


main()
