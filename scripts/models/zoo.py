"""The models of docs/models.md. They cover the usual families, exporters and opsets. They are small and trained for a
moment on digits.

Each entry of ZOO has a name, a description, an exporter and a function that writes NAME.onnx into a folder. The digits
are those of scikit-learn. They have 8×8 pixels and are enlarged here to 32×32 bytes in three channels.
"""

import os
import warnings
from collections import namedtuple

os.environ.setdefault("KERAS_BACKEND", "torch")

import numpy as np
import onnx
import torch
from sklearn import datasets
from torch import nn

Entry = namedtuple("Entry", "name family exporter opset data flags write split_at_zero", defaults=[False])
ZOO = []
TEST = 200  # number of examples held out

digits = datasets.load_digits()
order = np.random.default_rng(1).permutation(len(digits.target))
rows = (digits.data[order] / 16).astype(np.float32)  # [N,64], in [0,1]
labels = digits.target[order].astype(np.int64)
images = np.repeat(np.round(digits.images[order] * 255 / 16).astype(np.uint8)[:, None].repeat(4, 2).repeat(4, 3), 3, 1)
cancer_x, cancer_y = datasets.load_breast_cancer(return_X_y=True)
shuffled = np.random.default_rng(1).permutation(len(cancer_y))
cancer_x, cancer_y = cancer_x[shuffled], cancer_y[shuffled].astype(np.int64)
cancer_x = ((cancer_x - cancer_x.mean(0)) / cancer_x.std(0)).astype(np.float32)


def write_data(folder):
    """Writes the examples for the comparison into the folder."""
    np.savez(folder / "images.npz", x=images[:TEST], y=labels[:TEST])
    np.savez(folder / "rows.npz", x=rows[:TEST], y=labels[:TEST])
    np.savez(folder / "cancer.npz", x=cancer_x[:TEST], y=cancer_y[:TEST])


def entry(name, family, exporter, opset, data, flags=(), split_at_zero=False):
    def add(write):
        ZOO.append(Entry(name, family, exporter, opset, data, list(flags), write, split_at_zero))
        return write
    return add


# ---- torch ----

trained = {}
weights = None  # the folder that keeps the weights of the torch models


FEW = 320  # number of training examples for larger models


def trained_model(key, make, epochs=1, rate=1e-3):
    """Returns the model that a constructor makes, trained once for all its exports. Training takes one epoch of FEW
    examples, or several epochs of all examples."""
    if key not in trained:
        torch.manual_seed(1)
        model = make()
        kept = weights and weights / f"{key}.pt"
        if kept and kept.exists():
            model.load_state_dict(torch.load(kept))
            trained[key] = model.eval()
            return trained[key]
        x, y = torch.from_numpy(images[TEST:]).float() / 255, torch.from_numpy(labels[TEST:])
        if epochs == 1:
            x, y = x[:FEW], y[:FEW]
        optimiser = torch.optim.AdamW(model.parameters(), rate)
        model.train()
        for _ in range(epochs):
            for batch in torch.randperm(len(y)).split(32):
                out = model(x[batch])
                out = getattr(out, "logits", out)
                loss = nn.functional.cross_entropy(out, y[batch])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        settle(model, x)
        trained[key] = model.eval()
        if kept:
            kept.parent.mkdir(exist_ok=True)
            torch.save(model.state_dict(), kept)
    return trained[key]


def settle(model, x):
    """Sets the means and variances of batch normalisation, which a few steps of training barely move."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for m in norms:
        m.momentum = None
        m.reset_running_stats()
    if norms:
        with torch.no_grad():
            for batch in x[:FEW].split(64):
                model(batch)


def legacy(model, path, opset, batch="free", shape=(3, 32, 32), dtype=torch.float32, **options):
    if batch == "free":
        options["dynamic_axes"] = {"input": {0: "batch"}, "logits": {0: "batch"}}
    torch.onnx.export(model, (torch.zeros(1, *shape, dtype=dtype),), str(path), dynamo=False, opset_version=opset,
                      input_names=["input"], output_names=["logits"], **options)


def dynamo(model, path, opset, batch="free", shape=(3, 32, 32), dtype=torch.float32, **options):
    """Exports with the exporter that is torch's default since 2.9. The weights go into a file beside the model unless
    options say otherwise."""
    if batch == "free":
        options["dynamic_shapes"] = ({0: torch.export.Dim("batch")},)
    torch.onnx.export(model, (torch.zeros(1 if batch == 1 else 2, *shape, dtype=dtype),), str(path), dynamo=True,
                      opset_version=opset, input_names=["input"], output_names=["logits"], verbose=False, **options)


ORIGINALS = {}  # for each entry, the key of the weights, the constructor and the epochs of its torch model


def original(name):
    """Returns the torch model that an entry exports, with the weights of the export."""
    return trained_model(*ORIGINALS[name])


EXPORTERS = {"torch, TorchScript": legacy, "torch, dynamo": dynamo}


def torch_entry(name, family, make, exporter, opset, batch="free", key=None, epochs=1, flags=(), **options):
    how = "torch, TorchScript" if exporter is legacy else "torch, dynamo"
    if batch == 1:
        how += ", batch 1"
    if options.get("external_data") is False:
        how += ", one file"

    ORIGINALS[name] = key or name, make, epochs

    def write(path):
        exporter(original(name), path, opset, batch, **options)
    ZOO.append(Entry(name, family, how, opset, "images.npz", list(flags), write))


def cnn():
    return nn.Sequential(nn.Conv2d(3, 8, 5, 2, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 10))


for opset in (11, 13, 15, 17):
    torch_entry(f"cnn-{opset}", "small CNN", cnn, legacy, opset, key="cnn", epochs=8)
for opset in (18, 19, 20, 21, 22, 23):
    torch_entry(f"cnn-{opset}", "small CNN", cnn, dynamo, opset, key="cnn", epochs=8, external_data=False)
torch_entry("cnn-beside", "small CNN", cnn, dynamo, 20, key="cnn", epochs=8)
torch_entry("cnn-one", "small CNN", cnn, legacy, 17, batch=1, key="cnn", epochs=8)


def tv(name, **options):
    import torchvision
    return lambda: getattr(torchvision.models, name)(num_classes=10, **options)


torch_entry("resnet18", "torchvision ResNet-18", tv("resnet18"), dynamo, 18)
torch_entry("resnet18-one", "torchvision ResNet-18", tv("resnet18"), legacy, 17, batch=1, key="resnet18")
torch_entry("mobilenet_v2", "torchvision MobileNetV2", tv("mobilenet_v2"), legacy, 12)
torch_entry("mobilenet_v3", "torchvision MobileNetV3 small", tv("mobilenet_v3_small"), dynamo, 18, external_data=False)
torch_entry("efficientnet_b0", "torchvision EfficientNet-B0", tv("efficientnet_b0"), dynamo, 20)
torch_entry("regnet", "torchvision RegNetY-400MF", tv("regnet_y_400mf"), legacy, 13)
torch_entry("densenet121", "torchvision DenseNet-121", tv("densenet121"), dynamo, 18)
torch_entry("shufflenet", "torchvision ShuffleNetV2 0.5", tv("shufflenet_v2_x0_5"), legacy, 11)
torch_entry("mnasnet", "torchvision MNASNet 0.5", tv("mnasnet0_5"), legacy, 14, epochs=6)
torch_entry("googlenet", "torchvision GoogLeNet", tv("googlenet", aux_logits=False, init_weights=False), dynamo, 19)


def tv_vit():
    from torchvision.models import VisionTransformer
    return VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=64, mlp_dim=128, num_classes=10)


def tv_swin():
    from torchvision.models import SwinTransformer
    return SwinTransformer([2, 2], 32, [2, 2], [2, 4], [4, 4], num_classes=10)


torch_entry("tv_vit", "torchvision ViT, 2 layers", tv_vit, legacy, 14, epochs=6)
torch_entry("tv_vit-one", "torchvision ViT, 2 layers", tv_vit, dynamo, 18, batch=1, key="tv_vit", epochs=6)
torch_entry("tv_swin", "torchvision Swin, 4 layers", tv_swin, dynamo, 18, epochs=6)


class Rows(nn.Module):
    """Reads an image as a sequence of its rows."""

    def __init__(self, kind, **options):
        super().__init__()
        self.inner = kind(96, 24, batch_first=True, **options)
        self.last = nn.Linear(24 * (1 + options.get("bidirectional", False)), 10)

    def forward(self, x):
        return self.last(self.inner(x.transpose(1, 2).flatten(2))[0].mean(1))


class Einsum(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.last = nn.Parameter(torch.randn(3, 32, 6) / 6), nn.Linear(192, 10)

    def forward(self, x):
        return self.last(torch.einsum("nchw,cwk->nhk", x, self.inner).relu().flatten(1))


class Heads(nn.Module):
    """Attention as one operator (opset 23)."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(96, 72), nn.Linear(24, 10)

    def forward(self, x):
        q, k, v = (t.unflatten(2, (3, 8)).transpose(1, 2) for t in self.first(x.transpose(1, 2).flatten(2)).chunk(3, 2))
        return self.last(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2).mean(1))


torch_entry("lstm-one", "LSTM of rows", lambda: Rows(nn.LSTM), dynamo, 18, batch=1, epochs=8)
torch_entry("gru-one", "GRU of rows, 2 layers, both directions", lambda: Rows(nn.GRU, num_layers=2, bidirectional=True), legacy, 17, batch=1, epochs=8)
torch_entry("einsum-one", "Einsum", Einsum, dynamo, 20, batch=1, epochs=8)
torch_entry("attention-one", "Attention of rows", Heads, dynamo, 23, batch=1, epochs=8)


def tm(name, **options):
    import timm
    return lambda: timm.create_model(name, pretrained=False, num_classes=10, **options)


VIT = dict(img_size=32, patch_size=8, depth=2, embed_dim=64, num_heads=4)
torch_entry("timm_vit", "timm ViT, 2 layers", tm("vit_tiny_patch16_224", **VIT), dynamo, 18, epochs=6)
torch_entry("timm_vit-one", "timm ViT, 2 layers", tm("vit_tiny_patch16_224", **VIT), legacy, 17, batch=1, key="timm_vit", epochs=6)
torch_entry("timm_deit", "timm DeiT, 2 layers", tm("deit_tiny_patch16_224", **VIT), legacy, 16, epochs=6)
torch_entry("timm_swin", "timm Swin, 4 layers", tm("swin_tiny_patch4_window7_224", img_size=32, window_size=4, patch_size=2,
            embed_dim=32, depths=(2, 2), num_heads=(2, 4)), legacy, 17, epochs=6)
torch_entry("timm_convnext", "timm ConvNeXt atto", tm("convnext_atto"), dynamo, 21)
torch_entry("timm_convnext-one", "timm ConvNeXt atto", tm("convnext_atto"), legacy, 15, batch=1, key="timm_convnext")
torch_entry("timm_efficientnet", "timm EfficientNet-Lite0", tm("efficientnet_lite0"), legacy, 17)
torch_entry("timm_mobilenetv4", "timm MobileNetV4 small", tm("mobilenetv4_conv_small"), dynamo, 22)
torch_entry("timm_repvgg", "timm RepVGG-A0", tm("repvgg_a0"), legacy, 18)
torch_entry("timm_edgenext", "timm EdgeNeXt xx-small", tm("edgenext_xx_small"), dynamo, 18)


def hf_vit():
    from transformers import ViTConfig, ViTForImageClassification
    return ViTForImageClassification(ViTConfig(image_size=32, patch_size=8, hidden_size=64, num_hidden_layers=2,
                                               num_attention_heads=4, intermediate_size=128, num_labels=10))


def hf_convnext():
    from transformers import ConvNextV2Config, ConvNextV2ForImageClassification
    return ConvNextV2ForImageClassification(ConvNextV2Config(hidden_sizes=[16, 32, 64, 64], depths=[1, 1, 1, 1], patch_size=2, num_labels=10))


def hf_resnet():
    from transformers import ResNetConfig, ResNetForImageClassification
    return ResNetForImageClassification(ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic", num_labels=10))


torch_entry("hf_vit", "transformers ViT, 2 layers", hf_vit, dynamo, 18, epochs=6)
torch_entry("hf_vit-legacy", "transformers ViT, 2 layers", hf_vit, legacy, 17, key="hf_vit", epochs=6)
torch_entry("hf_convnext", "transformers ConvNeXtV2", hf_convnext, dynamo, 20, epochs=6)
torch_entry("hf_resnet", "transformers ResNet", hf_resnet, legacy, 17)


@entry("cnn-bytes", "small CNN of bytes (uint8)", "torch, TorchScript", 17, "images.npz")
def _(path):
    class Bytes(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model(x.to(torch.float32) / 255)
    legacy(Bytes(trained_model("cnn", cnn, 8)), path, 17, dtype=torch.uint8)


@entry("cnn-double", "small CNN, float64", "torch, TorchScript", 17, "images.npz")
def _(path):
    import copy
    legacy(copy.deepcopy(trained_model("cnn", cnn, 8)).double(), path, 17, dtype=torch.float64)


@entry("cnn-half", "small CNN, float16", "torch, TorchScript", 17, "images.npz")
def _(path):
    import copy
    legacy(copy.deepcopy(trained_model("cnn", cnn, 8)).half(), path, 17, dtype=torch.float16)


@entry("resnet18-half", "torchvision ResNet-18, float16 inside", "onnxruntime.transformers.float16", 17, "images.npz")
def _(path):
    from onnxruntime.transformers import float16
    legacy(trained_model("resnet18", tv("resnet18")), path, 17)
    onnx.save(float16.convert_float_to_float16(onnx.load(path), keep_io_types=True), path)


def quantise(path, model, **options):
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = iter([{"input": images[TEST + i:TEST + i + 16].astype(np.float32) / 255} for i in range(0, 160, 16)])

        def get_next(self):
            return next(self.left, None)
    plain = path.with_suffix(".float.onnx")
    legacy(model, plain, 17)
    quantize_static(str(plain), str(path), Reader(), **options)
    plain.unlink()


@entry("resnet18-qdq", "torchvision ResNet-18, int8, QDQ", "onnxruntime.quantization", 17, "images.npz")
def _(path):
    from onnxruntime.quantization import QuantFormat
    quantise(path, trained_model("resnet18", tv("resnet18")), quant_format=QuantFormat.QDQ, per_channel=True)


@entry("cnn-qoperator", "small CNN, int8, QOperator", "onnxruntime.quantization", 17, "images.npz")
def _(path):
    from onnxruntime.quantization import QuantFormat
    quantise(path, trained_model("cnn", cnn, 8), quant_format=QuantFormat.QOperator)


@entry("tv_vit-dynamic", "torchvision ViT, dynamic int8", "onnxruntime.quantization", 17, "images.npz")
def _(path):
    from onnxruntime.quantization import quantize_dynamic
    plain = path.with_suffix(".float.onnx")
    legacy(trained_model("tv_vit", tv_vit, 6), plain, 17)
    quantize_dynamic(str(plain), str(path))
    plain.unlink()


# ---- keras ----

@entry("keras-cnn", "Keras CNN, [N,H,W,C]", "keras (torch backend)", None, "images.npz")
def _(path):
    import keras
    model = keras.Sequential([keras.Input((32, 32, 3)), keras.layers.Conv2D(8, 5, 2, activation="relu"),
                              keras.layers.Conv2D(16, 3, 2, activation="relu"), keras.layers.Flatten(),
                              keras.layers.Dense(10, activation="softmax")])
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(images[TEST:].transpose(0, 2, 3, 1) / np.float32(255), labels[TEST:], epochs=6, verbose=0)
    model.export(path, format="onnx", verbose=False)


# ---- scikit-learn and boosted trees ----

def skl_entry(name, family, make, data="rows.npz", opset=None, columns=False, exporter="skl2onnx", **options):
    def write(path):
        from skl2onnx import to_onnx
        from skl2onnx.common.data_types import FloatTensorType
        x, y = (cancer_x, cancer_y) if data == "cancer.npz" else (rows, labels)
        model = make()
        model.fit(x[TEST:], y[TEST:])
        if columns:
            initial = [(f"column{j}", FloatTensorType([None, 1])) for j in range(x.shape[1])]
        else:
            initial = [("X", FloatTensorType([None, x.shape[1]]))]
        chosen = {id(model): options} if options else None
        path.write_bytes(to_onnx(model, initial_types=initial, options=chosen, target_opset=opset).SerializeToString())
    how = exporter + ("" if options.get("zipmap", True) else ", zipmap off")
    ZOO.append(Entry(name, family, how, opset, data, [], write))


def sk(module, name, **options):
    import importlib
    return lambda: getattr(importlib.import_module("sklearn." + module), name)(**options)


def scaled(make):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    return lambda: make_pipeline(StandardScaler(), make())


LR = sk("linear_model", "LogisticRegression", max_iter=1000)
skl_entry("skl-lr", "LogisticRegression", LR)
skl_entry("skl-lr-plain", "LogisticRegression", LR, zipmap=False)
skl_entry("skl-lr-binary", "LogisticRegression, 2 classes", LR, data="cancer.npz", zipmap=False)
skl_entry("skl-lr-binary-zipmap", "LogisticRegression, 2 classes", LR, data="cancer.npz")
skl_entry("skl-pipeline", "StandardScaler, LogisticRegression", scaled(LR), zipmap=False)
skl_entry("skl-forest", "RandomForestClassifier", sk("ensemble", "RandomForestClassifier", n_estimators=30, random_state=1), zipmap=False)
skl_entry("skl-forest-zipmap", "RandomForestClassifier", sk("ensemble", "RandomForestClassifier", n_estimators=30, random_state=1))
skl_entry("skl-boosting", "GradientBoostingClassifier", sk("ensemble", "GradientBoostingClassifier", n_estimators=10, random_state=1), zipmap=False)
skl_entry("skl-hist", "HistGradientBoostingClassifier", sk("ensemble", "HistGradientBoostingClassifier", max_iter=10, random_state=1), zipmap=False)
skl_entry("skl-svc", "StandardScaler, SVC(probability)", scaled(sk("svm", "SVC", probability=True, random_state=1)), zipmap=False)
skl_entry("skl-mlp", "MLPClassifier", sk("neural_network", "MLPClassifier", random_state=1, max_iter=40), zipmap=False)
skl_entry("skl-columns", "StandardScaler, LogisticRegression, one input a column", scaled(LR), data="cancer.npz", columns=True, zipmap=False)


@entry("xgboost", "XGBClassifier", "onnxmltools", None, "rows.npz")
def _(path):
    import xgboost
    from onnxmltools import convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType
    model = xgboost.XGBClassifier(n_estimators=10, max_depth=3).fit(rows[TEST:], labels[TEST:])
    path.write_bytes(convert_xgboost(model, initial_types=[("X", FloatTensorType([None, 64]))]).SerializeToString())


@entry("lightgbm", "LGBMClassifier", "onnxmltools", None, "rows.npz", split_at_zero=True)
def _(path):
    import lightgbm
    from onnxmltools import convert_lightgbm
    from onnxmltools.convert.common.data_types import FloatTensorType
    model = lightgbm.LGBMClassifier(n_estimators=10, verbose=-1).fit(rows[TEST:], labels[TEST:])
    path.write_bytes(convert_lightgbm(model, initial_types=[("X", FloatTensorType([None, 64]))], zipmap=False).SerializeToString())


def export(folder, names):
    """Exports the models that are missing and returns the failures by name."""
    global weights
    weights = folder / "weights"
    folder.mkdir(parents=True, exist_ok=True)
    write_data(folder)
    failed = {}
    warnings.simplefilter("ignore")
    for e in ZOO:
        path = folder / f"{e.name}.onnx"
        if path.exists() or names and e.name not in names:
            continue
        try:
            e.write(path)
            print(f"{e.name}: {path.stat().st_size} bytes", flush=True)
        except Exception as error:  # an exporter may not support the model
            failed[e.name] = f"{type(error).__name__}: {str(error).splitlines()[0][:80] if str(error) else ''}"
            print(f"{e.name}: {failed[e.name]}", flush=True)
            path.unlink(missing_ok=True)
    return failed
