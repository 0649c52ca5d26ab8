"""Writes formats/ and resize/: small images by Pillow, and what Pillow reads from them and resizes them to as
torchvision's Resize and CenterCrop do, images.json. Needs numpy and pillow.

    cd testdata && python3 make_images.py
"""
import json
import os
import shutil

import numpy as np
from PIL import Image

rng = np.random.default_rng(2)


def picture(h, w, channels):
    """A smooth picture with an edge and noise, so that filters and colour planes matter."""
    y, x = np.mgrid[:h, :w]
    planes = [127 + 90 * np.sin(x / (3 + c) + c) * np.cos(y / (4 + c)) + 60 * (x + y > (h + w) / 2) for c in range(channels)]
    noisy = np.stack(planes, -1) + rng.normal(0, 25, size=(h, w, channels))
    return np.clip(noisy, 0, 255).astype(np.uint8)


def levels(image):
    return np.asarray(image.convert("RGB")).transpose(2, 0, 1).reshape(-1).tolist()


golden = {"formats": {}, "resize": []}
shutil.rmtree("formats", ignore_errors=True)
os.makedirs("formats/0")
for name, image, options in [
    ("even.webp", Image.fromarray(picture(18, 22, 3)), {"quality": 60}),
    ("alpha.webp", Image.fromarray(picture(18, 22, 4)), {"quality": 90}),
    ("lossless.webp", Image.fromarray(picture(18, 22, 3)), {"lossless": True}),
    ("rgb.bmp", Image.fromarray(picture(18, 22, 3)), {}),
    ("palette.bmp", Image.fromarray(picture(18, 22, 3)).convert("P"), {}),
]:
    image.save("formats/0/" + name, **options)
    golden["formats"]["formats/0/" + name] = levels(Image.open("formats/0/" + name))
os.makedirs("formats/odd/0", exist_ok=True)
Image.fromarray(picture(17, 21, 3)).save("formats/odd/0/odd.webp", quality=60)
golden["formats"]["formats/odd/0/odd.webp"] = levels(Image.open("formats/odd/0/odd.webp"))

shutil.rmtree("resize", ignore_errors=True)
os.makedirs("resize/0")
Image.fromarray(picture(37, 53, 3)).save("resize/0/a.png")
image = Image.open("resize/0/a.png")


def torchvision(image, resize, crop, by):
    w, h = image.size
    if len(resize) == 2:
        h2, w2 = resize
    elif h <= w:
        h2, w2 = resize[0], int(resize[0] * w / h)
    else:
        h2, w2 = int(resize[0] * h / w), resize[0]
    image = image.resize((w2, h2), by)
    if crop:
        top, left = int(round((h2 - crop) / 2)), int(round((w2 - crop) / 2))
        image = image.crop((left, top, left + crop, top + crop))
    return image


for text, resize, crop in [("16", [16], 12), ("16", [16], 13), ("50", [50], 0), ("9x20", [9, 20], 0), ("37x20", [37, 20], 5), ("60x20", [60, 20], 0)]:
    for name, by in [("bilinear", Image.BILINEAR), ("bicubic", Image.BICUBIC)]:
        out = torchvision(image, resize, crop, by)
        golden["resize"].append({"resize": text, "crop": crop, "interpolation": name, "h": out.size[1], "w": out.size[0], "levels": levels(out)})

with open("images.json", "w") as out:
    json.dump(golden, out, separators=(",", ":"))
