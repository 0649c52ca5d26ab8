"""Tests the noise of training against the program's noise, bit for bit."""

import hashlib
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import rscert

torch = pytest.importorskip("torch")

from rscert.train import Noise, gaussian, laplace, uniform  # noqa: E402
from rscert.train._table import Table, law_table  # noqa: E402
from rscert.train._words import key, words  # noqa: E402
from rscert.train.noise import nearest_float32  # noqa: E402

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "internal/smoothing/testdata/lattice_golden.json").read_text())
CHECKSUM = ROOT / "testdata/noise-checksum.onnx"


def cells(table: Table) -> list[int]:
    """Counts the words that draw each integer of a table."""
    b = table.bits
    counts = [0] * (table.last - table.first + 1)
    for column, entry in enumerate(table.entries.tolist()):
        threshold, alias = entry >> b, entry & (1 << b) - 1
        own = min(threshold + (column <= alias), 1 << (64 - b)) if alias != column else 1 << (64 - b)
        if own:
            counts[column] += own
        counts[alias] += (1 << (64 - b)) - own
    return counts


@pytest.mark.parametrize("golden", GOLDEN["tables"], ids=lambda g: g["ratio"])
def test_masses_are_the_golden_ones(golden: dict) -> None:
    ratio = Fraction(golden["ratio"])
    # One of the golden tables is for a float64 scale on bytes.
    scale, step = (
        (0.12, Fraction(1, 255))
        if ratio == Fraction(0.12) * 255
        else (float(ratio.numerator), Fraction(ratio.denominator))
    )
    table = law_table("gaussian", scale, step)
    assert table.name == f"gaussian {ratio}"
    q = cells(table)
    assert (table.first, len(q), table.eta * 2**92) == (golden["first"], golden["labels"], golden["eta"])
    assert sum(q) == 2**64
    assert hashlib.sha256(b"".join(c.to_bytes(8, "little") for c in q)).hexdigest() == golden["masses"]


@pytest.mark.parametrize("golden", GOLDEN["words"], ids=lambda g: f"{g['seed']}-{g['example']}-{g['sample']}")
def test_words_are_the_golden_ones(golden: dict) -> None:
    made = words(
        key(int(golden["seed"]), int(golden["example"]), golden["phase"]),
        golden["sample"],
        max(golden["coordinates"]) + 1,
    )
    assert [f"{int(made[d]):016x}" for d in golden["coordinates"]] == golden["words"]


def checksum(inputs: np.ndarray) -> np.ndarray:
    """Returns the class that the model of CHECKSUM gives to inputs [n, D] with the values k/255."""
    k = np.rint(inputs.astype(np.float64) * 255).astype(np.int64)
    return ((1 + 7 * np.arange(k.shape[1]) % 3) * (k % 16)).sum(1) % 10


@pytest.mark.parametrize(
    ("noise", "seed"),
    [(gaussian(0.25), 5), (laplace(0.3), 6), (uniform(0.5), 7), (uniform(0.31), 8), (gaussian(1.0), 2**64 - 1)],
)
def test_certify_draws_the_same_noise(noise: Noise, seed: int, tmp_path: Path) -> None:
    digits = np.random.default_rng(1).integers(0, 256, (2, 28, 28), dtype=np.uint8)
    run = rscert.certify(
        CHECKSUM,
        (digits, np.array([0, 1])),
        sigma=noise.scale,
        law=noise.law,
        n=40,
        n0=20,
        seed=seed,
        out=tmp_path / "run",
    )
    assert run.record["noise"]["table"] == noise.table.digest()
    assert run.record["noise"]["step"] == str(noise.lattice)
    for example, row in run.votes.iterrows():
        x = torch.from_numpy(digits[example].reshape(-1)).float() / 255
        for phase, count, counts in ((0, 20, row.counts0), (1, 40, row.counts)):
            drawn = [
                noise.program(x, seed=seed, example=int(row["index"]), phase=phase, sample=s).numpy()
                for s in range(count)
            ]
            assert np.bincount(checksum(np.stack(drawn)), minlength=10).tolist() == counts


@pytest.mark.parametrize("noise", [gaussian(0.05), laplace(0.05), uniform(0.2)], ids=lambda n: n.law)
def test_small_scales_refine_the_lattice_like_the_program(noise: Noise, tmp_path: Path) -> None:
    run = rscert.certify(
        ROOT / "testdata/mnist-cnn.onnx",
        ROOT / "testdata/mnist",
        max=1,
        sigma=noise.scale,
        law=noise.law,
        n=10,
        n0=10,
        out=tmp_path / "run",
    )
    assert (run.record["noise"]["table"], run.record["noise"]["step"]) == (noise.table.digest(), str(noise.lattice))


def test_inputs_are_the_nearest_floats() -> None:
    step = Fraction(1, 765)
    exact = np.arange(-5000, 5001).astype(np.longdouble) / np.longdouble(765)
    assert nearest_float32(step, -5000, 5000).tolist() == exact.astype(np.float32).tolist()


@pytest.mark.parametrize("noise", [gaussian(0.25), laplace(0.1), uniform(0.25)], ids=lambda n: n.law)
def test_training_draws_the_table(noise: Noise) -> None:
    """A χ² test of the integers that ``add`` and ``offsets`` draw, against the table's masses."""
    count = 400_000
    x = torch.full((count,), 100 / 255)
    generator = torch.Generator().manual_seed(3)
    q = np.array([c / 2**64 for c in cells(noise.table)])
    for drawn in (noise.add(x, generator) - x, noise.offsets(x, generator)):
        labels = np.rint(drawn.double().numpy() / float(noise.lattice)).astype(int) - noise.table.first
        found = np.bincount(labels, minlength=len(q))
        usual = q * count >= 5
        expected = np.append(q[usual] * count, q[~usual].sum() * count + 1e-9)
        observed = np.append(found[usual], found[~usual].sum())
        statistic, freedom = float((((observed - expected) ** 2) / np.maximum(expected, 1)).sum()), len(expected) - 1
        assert abs(statistic - freedom) < 5 * (2 * freedom) ** 0.5


@pytest.mark.parametrize("law", ["gaussian", "laplace", "uniform"])
def test_continuous_noise_has_the_moments_of_its_law(law: str) -> None:
    drawn = Noise(law, 0.7, step=None).offsets(torch.zeros(400_000), torch.Generator().manual_seed(4)).double()
    mean_square = {"gaussian": 0.49, "laplace": 2 * 0.49, "uniform": 0.49 / 3}[law]
    mean_size = {"gaussian": 0.7 * (2 / np.pi) ** 0.5, "laplace": 0.7, "uniform": 0.35}[law]
    assert float(drawn.mean()) == pytest.approx(0, abs=0.008)
    assert float((drawn**2).mean()) == pytest.approx(mean_square, rel=0.02)
    assert float(drawn.abs().mean()) == pytest.approx(mean_size, rel=0.01)


def test_add_refuses_inputs_off_the_lattice() -> None:
    for x in (torch.tensor([0.3333]), torch.tensor([1 + 1 / 255]), torch.tensor([-1 / 255])):
        with pytest.raises(ValueError, match="not multiples of 1/255"):
            gaussian(0.25).add(x)


def test_a_scale_without_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="has room for"):
        _ = gaussian(20.0).table
    for scale in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="above 0"):
            gaussian(scale)
    with pytest.raises(ValueError, match="want one of"):
        Noise("cauchy", 1.0)  # type: ignore[arg-type]
