"""Writes numpy/, images/ and jpeg/: small files by NumPy and Pillow, and what these
libraries read from them, golden.json. Needs numpy and pillow.

    cd testdata && python3 make.py
"""
import json
import os
import shutil

import numpy as np
from PIL import Image

rng = np.random.default_rng(1)
golden = {}

shutil.rmtree("numpy", ignore_errors=True)
os.makedirs("numpy")


def digits(values):
    return [float("%.9g" % v) for v in values.reshape(-1)]  # enough for float32


def case(name, x, y, chw=None, save=np.savez):
    """Saves x and y; chw is x as rscert should read it."""
    path = "numpy/" + name
    if save is np.save:
        np.save(path + "_x.npy", x)
        np.save(path + "_y.npy", y)
        path += "_x.npy"
    else:
        path += ".npz"
        save(path, x=x, y=y)
    chw = x if chw is None else chw
    if chw.dtype == np.uint8:
        chw = chw.astype(np.float32) / np.float32(255)
    chw = chw.astype(np.float32)
    golden[path] = {"shape": chw.shape[1:], "labels": y.reshape(-1).astype(int).tolist(), "values": [digits(row) for row in chw]}


y = np.array([3, 9])
f = rng.normal(size=(2, 3, 2, 4))
u = rng.integers(0, 256, size=(2, 3, 2, 4), dtype=np.uint8)
case("f4", f.astype("<f4"), y)
case("f8-compressed", f, y.astype("u1"), save=np.savez_compressed)
case("f2", f.astype("<f2"), y.astype("u8"))
case("f4-big-endian", f.astype(">f4"), y.astype(">i2"))
case("f8-big-endian", f.astype(">f8"), y.astype("i1"), save=np.save)
case("u1", u, y.astype("i4"), save=np.save)
case("u1-fortran", np.asfortranarray(u), y, save=np.save)
case("f4-fortran", np.asfortranarray(f.astype("f4")), y.reshape(2, 1))
case("nhwc-u1", np.ascontiguousarray(u.transpose(0, 2, 3, 1)), y, chw=u, save=np.savez_compressed)
case("nhwc-fortran", np.asfortranarray(f.transpose(0, 2, 3, 1).astype("f4")), y, chw=f.astype("f4"))
case("nhw", u[:, 0], y, chw=u[:, :1])
case("nhw1", u[:, 0, :, :, None], y, chw=u[:, :1])
case("ambiguous", u[:, :, :, :3], y)  # [N,3,2,3] could be either: taken as it is
case("flat", f.reshape(2, 24), y.astype("f4"))
case("flat-fortran", np.asfortranarray(f.reshape(2, 24)), y, save=np.save)
for version in [(2, 0), (3, 0)]:
    with open("numpy/version%d_x.npy" % version[0], "wb") as out:
        np.lib.format.write_array(out, u, version=version)
    np.save("numpy/version%d_y.npy" % version[0], y)
    golden["numpy/version%d_x.npy" % version[0]] = golden["numpy/u1_x.npy"]

shutil.rmtree("images", ignore_errors=True)
H, W = 3, 4
ramp = np.add.outer(np.arange(H) * 61, np.arange(W) * 29).astype(np.uint8)
colour = np.stack([ramp, 255 - ramp, ramp[::-1]], axis=-1)


def image(path, img, **options):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    img.save(path, **options)
    pixels = np.asarray(Image.open(path).convert("RGB"))
    golden[path] = {"levels": pixels.transpose(2, 0, 1).reshape(-1).tolist()}


image("images/ant/a.png", Image.fromarray(ramp))
image("images/ant/b.png", Image.fromarray(colour))
alpha = Image.fromarray(colour)
alpha.putalpha(Image.fromarray(255 - ramp))
image("images/bee/a.PNG", alpha, format="PNG")
image("images/bee/b.png", Image.fromarray(colour).quantize(7))
image("images/bee/c.png", Image.fromarray(np.stack([ramp, 255 - ramp], axis=-1), "LA"))
deep = np.multiply(ramp, 257, dtype=np.uint16) ^ 0x0035
image("images/cat/a.png", Image.fromarray(deep))  # its levels are not used: convert("RGB") clips 16 bits
golden["images/cat/a.png"] = {"values": [digits(np.repeat(deep[None] / np.float32(65535), 3, axis=0))]}
image("images/cat/b.jpg", Image.fromarray(ramp), quality=95)
image("images/cat/c.jpeg", Image.fromarray(colour), quality=95, subsampling=0)
image("images/cat/d.JPEG", Image.fromarray(colour).convert("CMYK"), format="JPEG", quality=95)

# Odd sizes and edges between colours, where enlarging the colour planes matters.
shutil.rmtree("jpeg", ignore_errors=True)
blocks = rng.integers(0, 256, size=(3, 4, 3), dtype=np.uint8)
blocks = np.asarray(Image.fromarray(blocks).resize((13, 9), Image.BICUBIC))
for k, name in enumerate(["444", "422", "420"]):
    image("jpeg/0/%s.jpg" % name, Image.fromarray(blocks), quality=92, subsampling=k)

with open("golden.json", "w") as out:
    json.dump(golden, out, separators=(",", ":"))
