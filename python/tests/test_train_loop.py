"""Tests the training loop: what it learns, what it writes, and that an interrupted training ends like an uninterrupted
one."""

import csv
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from rscert.train import (  # noqa: E402
    Average,
    Constant,
    Cosine,
    GaussianAugmentation,
    Options,
    SmoothAdv,
    Standardise,
    Steps,
    digits_cnn,
    fit,
    gaussian,
    noisy_accuracy,
    resnet,
)

NOISE = gaussian(0.25)
OPTIONS = Options(epochs=4, batch=20, rate=0.05, average=0.9, seed=3)


def make_data(count: int = 130, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Bytes [N, 8] of three classes with different means."""
    r = np.random.default_rng(seed)
    y = r.integers(0, 3, count)
    centres = np.array([[200] * 4 + [50] * 4, [50] * 4 + [200] * 4, [120] * 8])
    return np.clip(centres[y] + r.normal(0, 20, (count, 8)), 0, 255).astype(np.uint8), y


def make_model(dropout: float = 0.0) -> "torch.nn.Module":
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(8, 16),
        torch.nn.BatchNorm1d(16),
        torch.nn.ReLU(),
        torch.nn.Dropout(dropout),
        torch.nn.Linear(16, 3),
    )


def weights(model: "torch.nn.Module") -> "torch.Tensor":
    return torch.cat([v.double().flatten() for v in model.state_dict().values()])


class Interrupted(Exception):
    pass


@dataclass(frozen=True)
class Interrupting:
    """A loss that fails in one epoch, like an interruption in the middle of this epoch."""

    inner: SmoothAdv
    epoch: int
    here: bool = False

    def at(self, epoch: int) -> "Interrupting":
        return replace(self, inner=self.inner.at(epoch), here=epoch == self.epoch)

    def __call__(
        self, model: "torch.nn.Module", batch: tuple, generator: "torch.Generator | None" = None
    ) -> "torch.Tensor":
        if self.here:
            raise Interrupted
        return self.inner(model, batch, generator)

    def __repr__(self) -> str:  # the settings are those of an uninterrupted training
        return repr(self.inner)


def test_a_resumed_training_ends_with_the_same_weights(tmp_path: Path) -> None:
    loss, data = SmoothAdv(NOISE, 0.3, samples=2, steps=2, warmup=3), make_data()
    more = {
        "validation": make_data(50, 2),
        "noise": NOISE,
        "augment": lambda x, g: x.roll(int(torch.randint(2, (1,), generator=g)), 1),
    }
    whole = fit(make_model(0.3), data, loss, OPTIONS, out=tmp_path / "whole", **more)
    for epoch in (1, 3):
        with pytest.raises(Interrupted):
            fit(make_model(0.3), data, Interrupting(loss, epoch), OPTIONS, out=tmp_path / "parts", **more)
        assert len(list(csv.DictReader((tmp_path / "parts/log.csv").open()))) == epoch
    torch.rand(5)  # the global generator is in another state
    resumed = fit(make_model(0.3), data, loss, OPTIONS, out=tmp_path / "parts", **more)
    assert torch.equal(weights(resumed.model), weights(whole.model))
    assert [{**r, "seconds": 0} for r in resumed.rows] == [{**r, "seconds": 0} for r in whole.rows]
    again = fit(make_model(0.3), data, loss, OPTIONS, out=tmp_path / "parts", **more)
    assert torch.equal(weights(again.model), weights(whole.model))


def test_seeds_decide(tmp_path: Path) -> None:
    def run(seed: int) -> "torch.Tensor":
        return weights(
            fit(make_model(0.3), make_data(), GaussianAugmentation(NOISE), replace(OPTIONS, seed=seed)).model
        )

    assert torch.equal(run(3), run(3))
    assert not torch.equal(run(3), run(4))


def test_other_settings_are_refused(tmp_path: Path) -> None:
    data, loss = make_data(), GaussianAugmentation(NOISE)
    fit(make_model(), data, loss, OPTIONS, out=tmp_path)
    for other_loss, options in ((GaussianAugmentation(gaussian(0.5)), OPTIONS), (loss, replace(OPTIONS, rate=0.1))):
        with pytest.raises(ValueError, match="other settings"):
            fit(make_model(), data, other_loss, options, out=tmp_path)


def test_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = make_data()
    options = replace(OPTIONS, epochs=3, schedule=Steps(every=2, factor_per_step=0.1))
    fitted = fit(
        make_model(),
        data,
        GaussianAugmentation(NOISE),
        options,
        out=tmp_path,
        validation=data,
        noise=NOISE,
        progress=True,
    )
    rows = list(csv.DictReader((tmp_path / "log.csv").open()))
    assert [float(r["rate"]) for r in rows] == pytest.approx([0.05, 0.05, 0.005])
    assert float(rows[2]["noisy_accuracy"]) == noisy_accuracy(fitted.model, data, NOISE, seed=2) > 0.6
    assert float(rows[2]["loss"]) < float(rows[0]["loss"])
    assert "epoch 3 of 3: loss" in capsys.readouterr().err
    assert not fitted.model.training


def test_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    data, loss = make_data(), SmoothAdv(NOISE, 0.3, samples=2, steps=2)
    with pytest.raises(Interrupted):
        fit(make_model(), data, Interrupting(loss, 1), OPTIONS, out=tmp_path)  # type: ignore[arg-type]
    fit(make_model(), data, loss, OPTIONS, out=tmp_path)
    board = EventAccumulator(str(tmp_path / "tensorboard"))
    board.Reload()
    for row in csv.DictReader((tmp_path / "log.csv").open()):
        for name in ("rate", "loss", "seconds"):
            found = {e.step: e.value for e in board.Scalars(name)}
            assert len(found) == OPTIONS.epochs
            assert found[int(row["epoch"])] == pytest.approx(float(row[name]), rel=1e-5)
    assert "noisy_accuracy" not in board.Tags()["scalars"]


def test_the_loop_learns() -> None:
    x, y = make_data(300)
    fitted = fit(
        make_model(), (x, y), GaussianAugmentation(NOISE), replace(OPTIONS, epochs=15, optimiser="adamw", rate=0.01)
    )
    assert noisy_accuracy(fitted.model, make_data(300, 9), NOISE) > 0.85


def test_sgd_and_average_by_hand() -> None:
    """With one batch per epoch and without noise, the weights follow SGD with momentum, and the average follows its
    definition."""
    x = np.array([[0, 255], [255, 0]], np.uint8)
    y = np.array([0, 1])
    torch.manual_seed(1)
    model = torch.nn.Linear(2, 2, bias=False)
    w = model.weight.detach().double().numpy().copy()
    mean, velocity = w.copy(), np.zeros_like(w)

    def loss(model: "torch.nn.Module", batch: tuple, generator: object = None) -> "torch.Tensor":
        return torch.nn.functional.cross_entropy(model(batch[0]), batch[1])

    options = Options(epochs=5, batch=8, rate=0.5, momentum=0.8, weight_decay=0.1, schedule=Constant(), average=0.15)
    fitted = fit(model, (x, y), loss, options)
    for k in range(5):
        z = (x / 255) @ w.T
        p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        gradient = (p - np.eye(2)[y]).T @ (x / 255) / 2 + 0.1 * w
        velocity = 0.8 * velocity + gradient
        w = w - 0.5 * velocity
        decay = min(0.15, (1 + k) / (10 + k))
        mean = decay * mean + (1 - decay) * w
    assert fitted.model.weight.detach().numpy() == pytest.approx(mean, abs=1e-5)
    assert model.weight.detach().numpy() == pytest.approx(w, abs=1e-5)


def test_schedules() -> None:
    assert [Cosine(warmup=2).factor(e, 10) for e in (0, 1, 2, 6, 10)] == pytest.approx([0, 0.5, 1, 0.5, 0])
    assert [Steps(4, 0.1).factor(e, 10) for e in (0, 3.9, 4, 8.5)] == pytest.approx([1, 1, 0.1, 0.01])


def test_average_copies_counters() -> None:
    model = make_model()
    average = Average(model, 0.5)
    model(torch.rand(4, 8))
    average.update(model)
    assert int(average.model[1].num_batches_tracked) == 1
    assert not any(p.requires_grad for p in average.model.parameters())


def test_a_loss_that_is_no_number_is_an_error() -> None:
    def bad(model: "torch.nn.Module", batch: tuple, generator: object = None) -> "torch.Tensor":
        return model(batch[0]).sum() * float("nan")

    with pytest.raises(FloatingPointError, match="epoch 1, batch 1"):
        fit(make_model(), make_data(), bad, OPTIONS)


def test_networks() -> None:
    assert digits_cnn()(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    assert sum(p.numel() for p in digits_cnn().parameters()) == 98_298
    for depth, count in ((20, 269_722), (110, 1_727_962)):  # 0.27 M and 1.7 M in He et al. 2016, table 6
        model = resnet(depth)
        assert sum(p.numel() for p in model.parameters()) == count
    assert resnet(8)(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    with pytest.raises(ValueError, match="6n"):
        resnet(18)
    out = Standardise([0.5, 1.0], [0.25, 2.0])(torch.ones(1, 2, 2, 2))
    assert out[0, :, 0, 0].tolist() == [2.0, 0.0]
