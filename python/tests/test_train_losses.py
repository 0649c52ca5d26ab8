"""Tests each loss against a reference in numpy, on small networks whose gradients are written by hand."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from rscert.train import (  # noqa: E402
    ACCEACT,
    CCAT,
    AdversarialTraining,
    Ball,
    BrierACT,
    Consistency,
    GaussianAugmentation,
    Noise,
    Penalties,
    PerturbationAware,
    SmoothAdv,
    gaussian,
    laplace,
    uniform,
)
from rscert.train.ball import ascend  # noqa: E402
from rscert.train.binning import blocked_bins, standard_bounds  # noqa: E402
from rscert.train.smooth import frozen  # noqa: E402

N, D, K = 6, 5, 4
CONTINUOUS = Noise("gaussian", 0.3, step=None)


@dataclass
class Net:
    """A network tanh(x·a + b)·c + d, and the gradient, with respect to the inputs, of a function of its logits."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    d: np.ndarray

    def logits(self, x: np.ndarray) -> np.ndarray:
        return np.tanh(x @ self.a + self.b) @ self.c + self.d

    def back(self, x: np.ndarray, to_logits: np.ndarray) -> np.ndarray:
        hidden = np.tanh(x @ self.a + self.b)
        return ((to_logits @ self.c.T) * (1 - hidden**2)) @ self.a.T

    def torch(self, dtype: "torch.dtype" = torch.float64) -> "torch.nn.Module":
        first, second = torch.nn.Linear(*self.a.shape), torch.nn.Linear(*self.c.shape)
        for layer, weight, bias in ((first, self.a, self.b), (second, self.c, self.d)):
            layer.weight.data, layer.bias.data = torch.tensor(weight.T), torch.tensor(bias)
        return torch.nn.Sequential(first, torch.nn.Tanh(), second).to(dtype)


def make_net(seed: int = 1, classes: int = K, size: float = 2.0) -> Net:
    r = np.random.default_rng(seed)
    return Net(
        r.normal(size=(D, 7)) * size,
        r.normal(size=7) * 0.3,
        r.normal(size=(7, classes)) * size,
        r.normal(size=classes) * 0.1,
    )


def make_batch(seed: int = 2, count: int = N, classes: int = K) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    return r.integers(0, 256, (count, D)) / 255, r.integers(0, classes, count)


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def soft_back(p: np.ndarray, to_p: np.ndarray) -> np.ndarray:
    """Returns the gradient with respect to the logits, from the gradient with respect to p = softmax(logits)."""
    return p * (to_p - (to_p * p).sum(-1, keepdims=True))


def generator(seed: int = 7) -> "torch.Generator":
    return torch.Generator().manual_seed(seed)


def tensors(
    batch: tuple[np.ndarray, np.ndarray], dtype: "torch.dtype" = torch.float64
) -> "tuple[torch.Tensor, torch.Tensor]":
    return torch.tensor(batch[0]).to(dtype), torch.tensor(batch[1])


def draw_offsets(noise: Noise, x: np.ndarray, m: int) -> np.ndarray:
    """Returns the noise [N, m, D] that a loss draws first from generator()."""
    return noise.offsets(torch.tensor(np.repeat(x, m, 0)), generator()).numpy().reshape(len(x), m, -1)


def close(found: "torch.Tensor", expected: float, tolerance: float = 1e-9) -> None:
    assert float(found.detach()) == pytest.approx(expected, rel=tolerance, abs=tolerance)


# The smoothed network


def smoothed(net: Net, x: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Returns the probabilities [N, m, K] of noisy copies."""
    return softmax(net.logits(x[:, None] + noise))


def smoothed_gradient(net: Net, x: np.ndarray, noise: np.ndarray, to_mean: np.ndarray) -> np.ndarray:
    """Returns the gradient with respect to x [N, D], from the gradient with respect to the mean probabilities [N,
    K]."""
    p = smoothed(net, x, noise)
    to_logits = soft_back(p, np.broadcast_to(to_mean[:, None] / p.shape[1], p.shape))
    return net.back(x[:, None] + noise, to_logits).sum(1)


def climb(x: np.ndarray, delta: np.ndarray, gradient: np.ndarray, epsilon: float, rate: float) -> np.ndarray:
    """Takes a step of length ``rate`` in L2, then projects onto the ball and onto [0, 1]."""
    delta = delta + rate * gradient / np.linalg.norm(gradient, axis=1, keepdims=True)
    delta = delta * np.minimum(1, epsilon / np.linalg.norm(delta, axis=1, keepdims=True))
    return np.clip(x + delta, 0, 1) - x


def entropy(p: np.ndarray, y: np.ndarray, objective: str) -> float:
    rows = np.arange(len(y))
    if objective == "ce-of-mean":
        return float(-np.log(p.mean(1)[rows, y]).mean())
    return float(-np.log(p[rows, :, y]).mean())


# Losses with noise alone


@pytest.mark.parametrize("noise", [gaussian(0.3), laplace(0.2), uniform(0.4), CONTINUOUS], ids=str)
def test_gaussian(noise: Noise) -> None:
    net, (x, y) = make_net(), make_batch()
    batch = tensors((x, y), torch.float32)
    noisy = noise.add(batch[0], generator()).double().numpy()
    assert np.abs(noisy - x).max() > 0.1
    expected = -np.log(softmax(net.logits(noisy))[np.arange(N), y]).mean()
    close(GaussianAugmentation(noise)(net.torch(torch.float32), batch, generator()), expected, 1e-5)


@pytest.mark.parametrize(("m", "weight", "entropy_weight"), [(2, 5.0, 0.5), (3, 0.7, 2.0)])
def test_consistency(m: int, weight: float, entropy_weight: float) -> None:
    net, (x, y) = make_net(), make_batch()
    p = smoothed(net, x, draw_offsets(CONTINUOUS, x, m))
    mean = p.mean(1, keepdims=True)
    divergence = (mean * np.log(mean / p)).sum(2).mean()
    spread = -(mean * np.log(mean)).sum(2).mean()
    expected = entropy(p, y, "mean-of-ce") + weight * divergence + entropy_weight * spread
    loss = Consistency(CONTINUOUS, m, weight, entropy_weight)
    close(loss(net.torch(), tensors((x, y)), generator()), expected)


# Attacks


@pytest.mark.parametrize("objective", ["ce-of-mean", "mean-of-ce"])
@pytest.mark.parametrize("noise", [gaussian(0.3), CONTINUOUS], ids=["lattice", "continuous"])
def test_smoothadv(noise: Noise, objective: str) -> None:
    net, (x, y), m, epsilon, steps, factor = make_net(), make_batch(), 3, 0.6, 4, 0.8
    drawn, delta, rows = draw_offsets(noise, x, m), np.zeros_like(x), np.arange(N)
    for _ in range(steps):
        mean = smoothed(net, x + delta, drawn).mean(1)
        to_mean = np.zeros_like(mean)
        to_mean[rows, y] = -1 / mean[rows, y]
        delta = climb(
            x, delta, smoothed_gradient(net, x + delta, drawn, to_mean), epsilon, 2 * factor * epsilon / steps
        )
    assert np.linalg.norm(delta, axis=1).max() > 0.5 * epsilon
    loss = SmoothAdv(noise, epsilon, m, steps, factor, warmup=0, objective=objective)  # type: ignore[arg-type]
    close(loss(net.torch(), tensors((x, y)), generator()), entropy(smoothed(net, x + delta, drawn), y, objective))


@pytest.mark.parametrize("score", ["top-label", "multiclass"])
@pytest.mark.parametrize("fixed", [True, False])
def test_brier_act(score: str, fixed: bool) -> None:
    net, (x, y), m, epsilon, steps = make_net(3, size=1.0), make_batch(4), 2, 0.5, 3
    source = generator()
    big = torch.tensor(np.repeat(x, m, 0))

    def draw() -> np.ndarray:
        return CONTINUOUS.offsets(big, source).numpy().reshape(N, m, D)

    drawn = draw()
    delta, one = np.zeros_like(x), np.eye(K)[y]
    correct = smoothed(net, x, drawn).mean(1).argmax(1) == y
    assert correct.any() and not correct.all()
    for _ in range(steps):
        mean = smoothed(net, x + delta, drawn).mean(1)
        if score == "multiclass":
            to_mean = 2 * (mean - one)
        else:
            top = mean.argmax(1)
            to_mean = np.zeros_like(mean)
            to_mean[np.arange(N), top] = 2 * (mean.max(1) - correct)
        delta = climb(x, delta, smoothed_gradient(net, x + delta, drawn, to_mean), epsilon, 2 * epsilon / steps)
        if not fixed:
            drawn = draw()
    if not fixed:
        drawn = draw()
    loss = BrierACT(CONTINUOUS, epsilon, m, steps, warmup=0, score=score, fixed_noise=fixed)  # type: ignore[arg-type]
    close(
        loss(net.torch(), tensors((x, y)), source.manual_seed(7)),
        entropy(smoothed(net, x + delta, drawn), y, "ce-of-mean"),
    )


def acce_reference(
    net: Net,
    x: np.ndarray,
    y: np.ndarray,
    drawn: np.ndarray,
    epsilon: float,
    sigma: float,
    steps: int,
    bins: int,
    rho: float,
    growth: float,
    rate: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Algorithm 2 of Emde et al., with the matrices of the paper: returns γ, the binary assignment and c."""
    from statistics import NormalDist

    normal, count = NormalDist(), len(x)
    size = count * bins
    gather = np.kron(np.eye(count), np.ones((bins, 1)))  # C [NM, N]
    spread = np.tile(np.eye(bins), (count, 1))  # B [NM, M]
    a = np.full(size, 1 / bins)
    q1, q2 = a.copy(), a.copy()
    l1, l2, l3, l4 = np.zeros(size), np.zeros(size), np.zeros(count), np.zeros(count)
    gamma = np.zeros_like(x)
    for t in range(steps):
        mean = smoothed(net, x + gamma, drawn).mean(1)
        z = mean.max(1)
        if t == 0:
            correct = (mean.argmax(1) == y).astype(float)
            low = [normal.cdf(normal.inv_cdf(v) - epsilon / sigma) for v in z]
            high = [normal.cdf(normal.inv_cdf(v) + epsilon / sigma) for v in z]
            k = np.array(
                [max(lo, b / bins) >= min(hi, (b + 1) / bins) for lo, hi in zip(low, high) for b in range(bins)], float
            )
            bar = k[:, None] * gather  # K [NM, N]
        wide = np.repeat(z, bins)
        e = np.repeat(correct, bins) - wide
        big_e = e[:, None] * spread  # E [NM, M]
        sums = big_e.T @ a
        # γ climbs Σ_m |E^T a|, with a(t−1).
        to_z = gather.T @ (-(spread @ np.sign(sums)) * a)
        to_mean = np.zeros_like(mean)
        to_mean[np.arange(count), mean.argmax(1)] = to_z
        gamma = climb(x, gamma, smoothed_gradient(net, x + gamma, drawn, to_mean), epsilon, 2 * epsilon / steps)
        slope = (
            -big_e @ np.sign(sums) + l1 + rho * (a - q1) + l2 + rho * (a - q2)
            + gather @ (l3 + rho * (gather.T @ a - 1)) + bar @ (l4 + rho * (bar.T @ a))
        )  # fmt: skip
        a = a - rate * np.clip(slope, -5, 5)
        reach = 1.2 * np.abs(q2 - 0.5).max()
        a = np.clip(a, 0.5 - reach, 0.5 + reach)
        q1 = np.clip(l1 / rho + a, 0, 1)
        away = l2 / rho + a - 0.5
        q2 = 0.5 + np.sqrt(size) / 2 * away / np.linalg.norm(away)
        l1, l2 = l1 + rho * (a - q1), l2 + rho * (a - q2)
        l3, l4 = l3 + rho * (gather.T @ a - 1), l4 + rho * (bar.T @ a)
        rho = min(rho * (1 + growth), 10)
    best = np.where(k == 1, -np.inf, a).reshape(count, bins).argmax(1)
    return gamma, np.eye(bins)[best], correct


@pytest.mark.parametrize("mix", [1.0, 0.8])
def test_acce_act(mix: float) -> None:
    net, (x, y), m, epsilon, steps, bins = make_net(3, size=1.0), make_batch(4, 9), 2, 0.15, 12, 8
    penalties = Penalties(start=0.02, growth=0.5, rate=0.05)
    drawn = draw_offsets(CONTINUOUS, x, m)
    gamma, chosen, correct = acce_reference(net, x, y, drawn, epsilon, 0.3, steps, bins, 0.02, 0.5, 0.05)
    assert len(set(chosen.argmax(1))) > 2 and 0 < correct.sum() < len(y)
    p = smoothed(net, x + gamma, drawn)
    calibration = np.abs(((correct - p.mean(1).max(1))[:, None] * chosen).sum(0)).sum() / len(y)
    expected = mix * entropy(p, y, "ce-of-mean") + (1 - mix) * calibration
    loss = ACCEACT(CONTINUOUS, epsilon, m, steps, warmup=0, bins=bins, penalties=penalties, mix=mix)
    close(loss(net.torch(), tensors((x, y)), generator()), expected, 1e-8)


def test_acce_act_solves_a_problem_that_can_be_enumerated() -> None:
    """After many steps at a fixed confidence, ADMM's assignment is close to the best of all assignments."""
    from itertools import product

    from rscert.train.binning import Assignment, error

    z = torch.tensor([0.55, 0.62, 0.81, 0.9], dtype=torch.float64)
    correct = torch.tensor([1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    blocked = torch.tensor([[0, 0, 1], [1, 0, 0], [1, 0, 0], [0, 0, 0]], dtype=torch.bool)
    penalties = Penalties(start=0.01, growth=0.02, rate=0.02)
    state = Assignment.start(correct, blocked, penalties)
    for _ in range(600):
        state.step(z, penalties)
    chosen = state.projected()
    assert not (chosen * blocked).any() and (chosen.sum(1) == 1).all()
    assert float((state.a - chosen).abs().max()) < 0.1  # ADMM itself is almost binary
    values = []
    for bins in product(range(3), repeat=4):
        if not any(blocked[i, b] for i, b in enumerate(bins)):
            values.append(float(error(z, correct, torch.nn.functional.one_hot(torch.tensor(bins), 3).double())))
    assert float(error(z, correct, chosen)) > 0.9 * max(values) > np.mean(values)


def test_standard_bounds_and_bins() -> None:
    from statistics import NormalDist

    normal = NormalDist()
    z = torch.tensor([0.7, 0.95], dtype=torch.float64)
    low, high = standard_bounds(z, 0.2, 0.5, 1000, alpha=0.01)
    slack = (np.log(2 / 0.01) / 2000) ** 0.5
    for v, found_low, found_high in zip([0.7, 0.95], low.tolist(), high.tolist()):
        assert found_low == pytest.approx(normal.cdf(normal.inv_cdf(v - slack) - 0.4))
        assert found_high == pytest.approx(normal.cdf(normal.inv_cdf(min(v + slack, 1 - 1e-16)) + 0.4))
    blocked = blocked_bins(torch.tensor([0.1, 0.5, 0.6]), torch.tensor([0.6, 0.9, 0.6]), 3)
    # The first two rows are the example of the paper's appendix E.2; the third is a single confidence.
    assert blocked.tolist() == [[False, False, True], [True, False, False], [True, False, True]]


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("random_start", [True, False])
def test_adversarial(norm: str, random_start: bool) -> None:
    net, (x, y), radius, steps = make_net(), make_batch(), 0.3, 3
    ball = Ball(norm, radius)  # type: ignore[arg-type]
    delta = np.zeros_like(x)
    if random_start:
        delta = np.clip(x + ball.random(torch.tensor(x), generator()).numpy(), 0, 1) - x
    rows = np.arange(N)
    for _ in range(steps):
        p = softmax(net.logits(x + delta))
        to_p = np.zeros_like(p)
        to_p[rows, y] = -1 / p[rows, y]
        gradient = net.back(x + delta, soft_back(p, to_p))
        if norm == "l2":
            delta = climb(x, delta, gradient, radius, 0.25)
        else:
            delta = np.clip(x + np.clip(delta + 0.25 * np.sign(gradient), -radius, radius), 0, 1) - x
    expected = -np.log(softmax(net.logits(x + delta))[rows, y]).mean()
    close(AdversarialTraining(ball, steps, 0.25, random_start)(net.torch(), tensors((x, y)), generator()), expected)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_ccat(norm: str) -> None:
    net, (x, y), radius, steps, rate, momentum, backtrack, power = (
        make_net(),
        make_batch(count=8),
        0.4,
        12,
        0.2,
        0.8,
        1.5,
        3.0,
    )
    ball = Ball(norm, radius)  # type: ignore[arg-type]
    half = 4
    deltas = ball.random(torch.tensor(x[:half]), generator()).numpy()
    deltas[1::2] = 0
    deltas = np.clip(x[:half] + deltas, 0, 1) - x[:half]
    undone = 0
    total = 0.0
    for i in range(half):  # one example at a time, unlike the implementation
        delta, speed, step = deltas[i], np.zeros(D), rate

        def look(delta: np.ndarray, i: int = i) -> tuple[float, np.ndarray]:
            p = softmax(net.logits(x[i] + delta))
            other = max((k for k in range(K) if k != y[i]), key=lambda k: p[k])
            return p[other], net.back((x[i] + delta)[None], soft_back(p, np.eye(K)[other])[None])[0]

        value, gradient = look(delta)
        for _ in range(steps):
            direction = gradient / np.linalg.norm(gradient) if norm == "l2" else np.sign(gradient)
            moved = momentum * speed + (1 - momentum) * direction
            tried = delta + step * moved
            if norm == "l2":
                tried = tried * min(1, radius / np.linalg.norm(tried))
            tried = np.clip(x[i] + np.clip(tried, -radius, radius) if norm == "linf" else x[i] + tried, 0, 1) - x[i]
            tried_value, tried_gradient = look(tried)
            if tried_value >= value:
                delta, value, gradient, speed = tried, tried_value, tried_gradient, moved
            else:
                step /= backtrack
                undone += 1
        size = np.linalg.norm(delta) if norm == "l2" else np.abs(delta).max()
        share = (1 - min(1, size / radius)) ** power
        target = share * np.eye(K)[y[i]] + (1 - share) / K
        total -= target @ np.log(softmax(net.logits(x[i] + delta)))
    assert undone > 0
    total -= np.log(softmax(net.logits(x[half:]))[np.arange(half), y[half:]]).sum()
    loss = CCAT(ball, steps, rate, momentum, backtrack, power)
    close(loss(net.torch(), tensors((x, y)), generator()), total / 8)


def test_random_starts_fill_the_ball() -> None:
    x = torch.zeros(2000, 3, dtype=torch.float64)
    for norm in ("l2", "linf"):
        sizes = Ball(norm, 0.5).sizes(Ball(norm, 0.5).random(x, generator())).numpy()  # type: ignore[arg-type]
        assert np.quantile(sizes, [0.1, 0.5, 0.9]) == pytest.approx([0.05, 0.25, 0.45], abs=0.02)
        assert sizes.max() <= 0.5 + 1e-12


def test_ascent_finds_the_corner_of_a_linear_function() -> None:
    weights = torch.tensor([1.0, -2.0, 0.0], dtype=torch.float64)
    x = torch.full((2, 3), 0.5, dtype=torch.float64)
    found = ascend(lambda d: (d @ weights).sum(), x, Ball("linf", 0.7), steps=5, rate=0.3)
    assert found.tolist() == [[0.5, -0.5, 0.0]] * 2  # clipped to [0, 1]
    found = ascend(lambda d: (d @ weights).sum(), x, Ball("l2", 0.2), steps=5, rate=0.3)
    assert found.norm(dim=1).tolist() == pytest.approx([0.2] * 2)


# Scores that will be perturbed


def expected_logs(t: float, h: float) -> tuple[float, float]:
    """E log s and E log(1 − s) under the density sech((s − t)/h)/Z on [0, 1], by the midpoint rule on a fine grid."""
    # The substitution s = v²(3 − 2v) makes the logarithms at the ends harmless.
    v = (np.arange(2_000_000) + 0.5) / 2_000_000
    s = v * v * (3 - 2 * v)
    weight = 1 / np.cosh(np.clip((s - t) / h, -700, 700)) * 6 * v * (1 - v)
    weight /= weight.sum()
    return float(weight @ np.log(s)), float(weight @ np.log1p(-s))


@pytest.mark.parametrize("h", [2**-6, 2**-3, 0.5])
@pytest.mark.parametrize("t", [0.001, 0.02, 0.3, 0.5, 0.97])
def test_expected_logs(t: float, h: float) -> None:
    one, zero = PerturbationAware(h).expected_logs(torch.tensor([t], dtype=torch.float64))
    expected = expected_logs(t, h)
    assert (float(one), float(zero)) == pytest.approx(expected, rel=2e-3, abs=2e-4)


@pytest.mark.parametrize("shape", ["one", "column", "two"])
def test_perturbation_aware(shape: str) -> None:
    h = 2**-4
    z = np.array([2.0, -0.3, 0.1, -2.2, 0.2, 0.5])
    y = np.array([1, 0, 1, 0, 0, 1])
    t = 1 / (1 + np.exp(-z))
    logs = np.array([expected_logs(v, h) for v in t])
    value = -np.where(y == 1, logs[:, 0], logs[:, 1]).mean()
    near = [(i, j) for i in range(6) for j in range(6) if y[i] == 1 and y[j] == 0 and abs(t[i] - t[j]) < 2 * h]
    assert 0 < len(near) < 9
    value += np.mean([np.log1p(np.exp(2 * h - (z[i] - z[j]))) for i, j in near])
    output = {
        "one": torch.tensor(z),
        "column": torch.tensor(z)[:, None],
        "two": torch.tensor(np.stack([-z / 3, 2 * z / 3], 1)),
    }[shape]
    close(PerturbationAware(h)(torch.nn.Identity(), (output, torch.tensor(y))), value, 1e-3)


def test_perturbation_aware_has_gradients_at_the_ends() -> None:
    z = torch.tensor([-80.0, 80.0, 0.0, 9.0], requires_grad=True)
    PerturbationAware(2**-12)(torch.nn.Identity(), (z, torch.tensor([0, 1, 1, 0]))).backward()
    assert torch.isfinite(z.grad).all() and float(z.grad[3]) > 0


# Properties of all losses

LOSSES = [
    GaussianAugmentation(gaussian(0.3)),
    Consistency(gaussian(0.3)),
    SmoothAdv(gaussian(0.3), 0.5, warmup=0),
    AdversarialTraining(Ball("linf", 0.1)),
    CCAT(Ball("linf", 0.1), steps=3),
    BrierACT(gaussian(0.3), 0.5, warmup=0),
    ACCEACT(gaussian(0.3), 0.5, warmup=0, mix=0.9),
]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda v: type(v).__name__)
def test_losses_give_gradients_and_leave_the_model_alone(loss: Callable) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(D, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh(), torch.nn.Linear(8, K))
    model[0].bias.requires_grad_(False)
    model[1].eval()
    loss(model, tensors(make_batch(), torch.float32), generator()).backward()
    assert model.training and not model[1].training
    assert model[0].bias.grad is None and not model[0].bias.requires_grad
    assert all(p.grad is not None and float(p.grad.abs().max()) > 0 for p in (model[0].weight, model[3].weight))


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if hasattr(loss, "at")], ids=lambda v: type(v).__name__)
def test_radii_grow_to_their_full_size(loss: Callable) -> None:
    def radius(of: Callable) -> float:
        return of.ball.radius if hasattr(of, "ball") else of.epsilon

    growing = replace(loss, warmup=3)
    full = radius(loss)
    assert [radius(growing.at(e)) for e in range(5)] == pytest.approx([full / 3, 2 * full / 3, full, full, full])
    assert radius(replace(loss, warmup=0).at(0)) == full


def test_frozen_restores_the_model_after_an_error() -> None:
    model = torch.nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="stop"), frozen(model):
        assert not model.training and not model.weight.requires_grad
        raise RuntimeError("stop")
    assert model.training and model.weight.requires_grad
