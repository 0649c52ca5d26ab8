#!/usr/bin/env python3
"""Make internal/onnx/testdata/exports: small models exported by skl2onnx and PyTorch, and the results of Python's ONNX
Runtime for some inputs (golden.json). The tests compare rscert's scores with these results.

The weights are random or fitted to iris. The files are small because shape annotations and doc strings are left out.
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime.quantization import quantize_dynamic
from skl2onnx import to_onnx
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType
from sklearn.datasets import load_iris
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.nn import functional
from torchvision.models.convnext import CNBlockConfig, ConvNeXt
from torchvision.models.swin_transformer import SwinTransformer
from torchvision.models.vision_transformer import VisionTransformer

ROWS = slice(3, 150, 10)  # the rows of iris in golden.json and iris.csv
COLUMNS = ["sepal_length", "sepal_width", "petal_length", "petal_width"]


class Upsampling(nn.Module):
    """A model with Resize to constant sizes."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.head = nn.Linear(4 * 16 * 16, 5)

    def forward(self, x):
        y = functional.interpolate(self.down(x), size=(16, 16), mode="bilinear", align_corners=False)
        return self.head(torch.relu(y).flatten(1))


class Attention(nn.Module):
    """A vision transformer of one block, written as timm writes it."""

    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads = heads
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 17, width))
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v)
        return self.head((x + y.transpose(1, 2).reshape(b, n, c))[:, 0])


class Binary(nn.Module):
    """A model that returns one number per sample."""

    def __init__(self, sigmoid, squeeze):
        super().__init__()
        self.sigmoid, self.squeeze = sigmoid, squeeze
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(768, 4), nn.ReLU(), nn.Linear(4, 1))

    def forward(self, x):
        z = 8 * self.layers(x)
        z = torch.sigmoid(z) if self.sigmoid else z
        return z[:, 0] if self.squeeze else z


class Bytes(nn.Module):
    """A model that takes images of bytes."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(196, 5))

    def forward(self, x):
        return self.net(x.float() / 255)


class Tokens(nn.Module):
    """A model that takes token numbers."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(20, 4), nn.Linear(4, 3)

    def forward(self, ids):
        return self.head(self.table(ids).mean(1))


def images(count=3):
    """Returns images of bytes [count,3,16,16]. Value i of a sample is (37·i + 101·sample) mod 256, as in the tests."""
    i = np.arange(768)
    return np.stack([(37 * i + 101 * s) % 256 for s in range(count)]).reshape(count, 3, 16, 16).astype(np.uint8)


def save(folder, name, model):
    del model.graph.value_info[:]
    for thing in [model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output, *model.graph.initializer]:
        thing.doc_string = ""
        if hasattr(thing, "metadata_props"):
            del thing.metadata_props[:]
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def rows_of(result):
    if isinstance(result, list):  # the output of ZipMap
        result = [list(row.values()) for row in result]
    return np.asarray(result, dtype=np.float64)


def scikit_learn(folder, golden):
    x, y = load_iris(return_X_y=True)
    x = x.astype(np.float32)
    targets = {"multi": y, "binary": (y > 0).astype(int), "strings": np.array(["setosa", "versicolor", "virginica"])[y], "from1": y + 1,
               "species": np.array(["wild", "blue", "tall"])[y], "tens": 10 * y + 10}  # scikit-learn sorts the labels
    makers = {
        "logistic": lambda: LogisticRegression(max_iter=500),
        "forest": lambda: RandomForestClassifier(4, max_depth=3, random_state=0),
        "boosting": lambda: GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0),
        "pipeline": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
        "mlp": lambda: MLPClassifier((8,), max_iter=1000, random_state=0),
    }
    one = [("x", FloatTensorType([None, 4]))]
    cases = [(m, t, z, one, None) for m in ("logistic", "forest", "boosting", "pipeline") for t in ("multi", "binary") for z in (True, False)]
    cases += [("logistic", "strings", True, one, None), ("logistic", "from1", True, one, None), ("mlp", "binary", True, one, None),
              ("logistic", "species", False, one, None), ("mlp", "tens", False, one, None),
              ("pipeline", "multi", True, [(c, FloatTensorType([None, 1])) for c in COLUMNS], "columns"),
              ("forest", "multi", True, [("x", Int64TensorType([None, 4]))], "int64"),
              ("logistic", "multi", False, [("x", DoubleTensorType([None, 4]))], "float64")]
    for maker, target, zipmap, inputs, suffix in cases:
        model = makers[maker]().fit(x, targets[target])
        name = "_".join(["sklearn", maker, target, suffix or ("zipmap" if zipmap else "tensor")])
        session = save(folder, name, to_onnx(model, initial_types=inputs, options={id(model): {"zipmap": zipmap}}))
        rows = x[ROWS]
        feed = {"x": rows}
        if suffix == "columns":
            feed = {c: rows[:, k : k + 1] for k, c in enumerate(COLUMNS)}
        if suffix == "int64":
            rows = np.floor(rows + np.float32(0.5))
            feed = {"x": rows.astype(np.int64)}
        if suffix == "float64":
            feed = {"x": rows.astype(np.float64)}
        golden.append({"model": name, "data": "iris", "scores": rows_of(session.run(None, feed)[1]).tolist()})
    with open(folder / "iris.csv", "w") as f:
        f.write(",".join(COLUMNS) + ",label\n")
        for row, label in zip(x[ROWS], y[ROWS]):
            f.write(",".join(str(v) for v in row) + f",{label}\n")


def pytorch(folder, golden):
    torch.manual_seed(0)
    vit = VisionTransformer(image_size=16, patch_size=4, num_layers=2, num_heads=2, hidden_dim=8, mlp_dim=16, num_classes=5)
    nn.init.normal_(vit.heads.head.weight)
    nn.init.normal_(vit.class_token)
    convnext = ConvNeXt([CNBlockConfig(8, 12, 1), CNBlockConfig(12, None, 1)], num_classes=5, layer_scale=0.5)
    nn.init.normal_(convnext.classifier[2].weight)
    swin = SwinTransformer([2, 2], 8, [2, 2], [2, 2], [4, 4], num_classes=5)
    nn.init.normal_(swin.head.weight)
    x = torch.from_numpy(images(1)).float() / 255
    cases = [(n, m, e, x) for n, m in {"vit": vit, "convnext": convnext, "upsampling": Upsampling(), "attention": Attention()}.items()
             for e in ("legacy", "dynamo")]
    cases += [("swin", swin, "dynamo", x), ("bytes", Bytes(), "legacy", torch.from_numpy(images(1))),
              ("logit", Binary(False, False), "legacy", x), ("probability", Binary(True, False), "dynamo", x),
              ("probability_flat", Binary(True, True), "legacy", x), ("double", Upsampling().double(), "legacy", x.double()),
              ("tokens", Tokens(), "legacy", torch.zeros(1, 7, dtype=torch.int64))]
    for name, model, exporter, example in cases:
        path = folder / "torch.onnx"
        more = {"external_data": False} if exporter == "dynamo" else {}
        torch.onnx.export(model.eval(), example, path, dynamo=exporter == "dynamo", **more)
        exported = onnx.load(path)
        path.unlink()
        name = f"torch_{name}_{exporter}"
        if name in ("torch_double_legacy", "torch_tokens_legacy"):  # rscert refuses these models
            onnx.save(exported, folder / f"{name}.onnx")
            continue
        session = save(folder, name, exported)
        inputs = images() if name == "torch_bytes_legacy" else images().astype(np.float32) / 255
        scores = np.stack([session.run(None, {session.get_inputs()[0].name: one[None]})[0].ravel() for one in inputs]).astype(np.float64)
        if "logit" in name:
            scores = np.concatenate([0 * scores, scores], 1)
        if "probability" in name:
            scores = np.concatenate([1 - scores, scores], 1)
        golden.append({"model": name, "data": "images", "scores": scores.tolist()})


def quantised(folder):
    """Writes a dynamically quantised model, in which the whole batch shares the scale of a layer's inputs."""
    torch.manual_seed(0)
    plain, path = folder / "plain.onnx", folder / "torch_quantised_legacy.onnx"
    net = nn.Sequential(nn.Flatten(), nn.Linear(768, 4), nn.ReLU(), nn.Linear(4, 5)).eval()
    torch.onnx.export(net, torch.zeros(1, 3, 16, 16), plain, dynamo=False, input_names=["x"], output_names=["y"],
                      dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})
    quantize_dynamic(plain, path)
    plain.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    golden = []
    scikit_learn(folder, golden)
    pytorch(folder, golden)
    quantised(folder)
    lines = ",\n".join(json.dumps(g) for g in golden)
    (folder / "golden.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
