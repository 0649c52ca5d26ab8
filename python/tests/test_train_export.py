"""Tests rscert.export and the recipes, with the program that certifies the exported files."""

import hashlib
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import rscert

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

from rscert.train import GaussianAugmentation, Options, gaussian, recipe, resnet  # noqa: E402
from rscert.train.recipe import data_sha256, plain, text  # noqa: E402


def make_model(seed: int = 0) -> "torch.nn.Module":
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 4 * 5, 4))


DATA = (np.random.default_rng(1).integers(0, 256, (30, 3, 4, 5), dtype=np.uint8), np.arange(30) % 4)


def test_the_file_predicts_like_pytorch(tmp_path: Path) -> None:
    import onnxruntime

    model = resnet(8).train()
    made = rscert.export(model, tmp_path / "m.onnx", shape=(3, 32, 32), mean=[0.5, 0.4, 0.3], std=[0.2, 0.3, 0.4])
    assert model.training  # the caller's model is unchanged
    x = torch.rand(20, 3, 32, 32)
    with torch.no_grad():
        expected = model.eval()(
            (x - torch.tensor([0.5, 0.4, 0.3])[:, None, None]) / torch.tensor([0.2, 0.3, 0.4])[:, None, None]
        ).numpy()
    session = onnxruntime.InferenceSession(made.path.read_bytes(), providers=["CPUExecutionProvider"])
    found = session.run(None, {"input": x.numpy()})[0]
    assert found == pytest.approx(expected, abs=1e-4)
    assert (found.argmax(1) == expected.argmax(1)).all()
    assert made.difference < 1e-4 and made.recipe is None
    assert made.sha256 == hashlib.sha256(made.path.read_bytes()).hexdigest()
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


class Different(torch.nn.Module):
    """A model that gives other logits during its export. So the exported file differs from the model."""

    def __init__(self, wrong: float) -> None:
        super().__init__()
        self.wrong = wrong

    def forward(self, x: "torch.Tensor") -> "torch.Tensor":
        logits = x.flatten(1)[:, :3]
        return logits + self.wrong * torch.eye(3)[0] if torch.onnx.is_in_onnx_export() else logits


@pytest.mark.parametrize("wrong", [10.0, 1e-2, float("nan")])
def test_a_file_that_differs_is_refused(wrong: float, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="differs by"):
        rscert.export(Different(wrong), tmp_path / "m.onnx", shape=(5,))
    assert not list(tmp_path.iterdir())


def test_a_prediction_that_differs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="predicts 3 of 3 examples unlike"):
        rscert.export(Different(-1e-4), tmp_path / "m.onnx", shape=(5,), examples=np.full((3, 5), 0.5, np.float32))


def test_certify_records_the_recipe(tmp_path: Path) -> None:
    loss, options = GaussianAugmentation(gaussian(0.25)), Options(epochs=2, seed=9)
    made = recipe(DATA, loss, options, network="linear")
    exported = rscert.export(make_model(), tmp_path / "m.onnx", shape=(3, 4, 5), recipe=made, examples=DATA[0])
    assert exported.recipe == tmp_path / "m.recipe.json"
    assert exported.recipe_sha256 == hashlib.sha256(exported.recipe.read_bytes()).hexdigest()
    run = rscert.certify(exported.path, DATA, sigma=0.25, n=10, n0=10, max=1, out=tmp_path / "run")
    assert run.record["model"]["recipe"] == exported.recipe_sha256
    assert run.record["noise"]["table"] == made["noise"]["table"]
    plain_model = rscert.export(make_model(), tmp_path / "p.onnx", shape=(3, 4, 5))
    assert plain_model.recipe_sha256 is None
    run = rscert.certify(plain_model.path, DATA, sigma=0.25, n=10, n0=10, max=1, out=tmp_path / "plain")
    assert "recipe" not in run.record["model"]


def test_the_recipe_has_everything() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    loss = GaussianAugmentation(gaussian(0.25, Fraction(1, 255)))
    made = json.loads(text(recipe(DATA, loss, Options(epochs=2, seed=9), network="linear")))
    assert made["loss"] == {
        "name": "GaussianAugmentation",
        "noise": {"name": "Noise", "law": "gaussian", "scale": 0.25, "step": "1/255"},
    }
    assert made["options"]["seed"] == 9 and made["options"]["schedule"]["name"] == "Cosine"
    assert (
        made["versions"]["torch"] == torch.__version__.split("+")[0] or made["versions"]["torch"] == torch.__version__
    )
    assert made["data"] == {"sha256": data_sha256(DATA), "examples": 30, "shape": [3, 4, 5]}
    schema = json.loads((Path(__file__).parents[2] / "docs/schemas/recipe.json").read_text())
    jsonschema.validate(made, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**made, "data": {}}, schema)


def test_the_data_hash_covers_values_types_and_labels() -> None:
    x, y = DATA
    other = x.copy()
    other[3, 1, 2, 0] ^= 1
    hashes = {
        data_sha256(d) for d in [(x, y), (other, y), (x, y[::-1]), (x.astype(np.int16), y), (x.reshape(30, -1), y)]
    }
    assert len(hashes) == 5
    assert data_sha256((torch.from_numpy(x), torch.from_numpy(y))) == data_sha256((x, y))
    expected = hashlib.sha256(
        b"|u1 (30, 3, 4, 5)\n" + x.tobytes() + b"<i8 (30,)\n" + y.astype("<i8").tobytes()
    ).hexdigest()
    assert data_sha256((x, y)) == expected


def test_plain_values() -> None:
    assert plain({"a": (1, None, True, Fraction(1, 3)), 2: print}) == {"a": [1, None, True, "1/3"], "2": repr(print)}
