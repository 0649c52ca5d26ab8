"""Golden vectors of the noise. This script follows the definitions in the comments of float.go and stream.go, with
Python integers and decimals of 50 digits. It shares no code with Go.

    python3 noise_golden.py > noise_golden.json
"""
import json
import struct
from decimal import Decimal as D, getcontext
from fractions import Fraction

getcontext().prec = 50
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


def word(key, sample, w):
    def rot(x):
        x %= W
        return (x << 32) % W + (x >> 32)

    y = (sample * G + w) * key % W
    z = (y + key) % W
    x = rot(y * y + y)
    x = rot(x * x + z)
    x = rot(x * x + y)
    return (x * x + z) % W >> 32


def arctan_inverse(n):
    total, term, k = D(0), D(1) / n, 1
    while abs(term) > D(10) ** -60:
        total += term / k
        term, k = -term / (n * n), k + 2
    return total


PI = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))  # Machin


def cosine(x):
    total, term, k = D(0), D(1), 0
    while abs(term) > D(10) ** -60:
        total += term
        term, k = -term * x * x / ((k + 1) * (k + 2)), k + 2
    return total


def gaussian(key, sample, d):
    a, b = word(key, sample, d // 2 * 2), word(key, sample, d // 2 * 2 + 1)
    u = D(a * 256 + b % 256 + 1) / D(2**40)
    turns = D(b // 256) / D(2**24)
    if d % 2:
        turns -= D("0.25")  # sin x = cos(x − π/2)
    if turns > D("0.5"):
        turns -= 1
    return (-2 * u.ln()).sqrt() * cosine(2 * PI * turns)


def nearest_float32(x):
    f = struct.unpack("<I", struct.pack("<f", float(x)))[0]
    value = lambda i: Fraction(struct.unpack("<f", struct.pack("<I", i))[0])
    return min((f - 1, f, f + 1), key=lambda i: abs(value(i) - Fraction(x)))


vectors = []
for seed, example, phase in [(1, 0, 0), (1, 0, 1), (1, 1, 1), (0, 9999, 1), (W - 1, 49999, 0), (20240607, 2**56 - 1, 1)]:
    key = key_of(seed, example, phase)
    for sample in [0, 1, 99999, 2**31 - 1]:
        ds = [0, 1, 2, 3, 4, 255, 256, 257, 783, 3071, 150527]
        vectors.append({
            "seed": str(seed), "example": str(example), "phase": phase, "sample": sample, "key": "%016x" % key,
            "coordinates": ds,
            "words": [word(key, sample, d) for d in ds],
            "gaussians": ["%.15f" % gaussian(key, sample, d) for d in ds],
            "float32": ["%08x" % nearest_float32(gaussian(key, sample, d)) for d in ds],
        })
print(json.dumps(vectors, indent=None, separators=(",", ":")).replace("},{", "},\n{"))
