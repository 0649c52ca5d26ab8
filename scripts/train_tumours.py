"""Trains the table model of docs/columns.md: a logistic regression on the breast cancer data of scikit-learn.

    python scripts/train_tumours.py [--out testdata]

The script needs scikit-learn and skl2onnx (scripts/requirements-exports.txt). It writes tumours.onnx,
tumours/train.csv.gz and tumours/test.csv.gz. Each training row appears 20 times, with fresh Gaussian noise of half a
standard deviation in each column.
"""

import argparse
import csv
import gzip
import io
import pathlib

import numpy as np
from skl2onnx import to_onnx
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def write(path, names, rows, labels):
    """Writes rows and labels as a CSV table, compressed without a date, so that the same rows make the same bytes."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*names, "label"])
    table.writerows([*map(str, row), label] for row, label in zip(rows, labels))
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default="testdata", help="folder of the files")
    out = parser.parse_args().out

    data = load_breast_cancer()
    x = data.data.astype(np.float32)
    train, test, train_y, test_y = train_test_split(x, data.target, test_size=0.4, random_state=0, stratify=data.target)
    rng = np.random.default_rng(0)
    noisy = np.repeat(train, 20, axis=0)
    noisy = noisy + 0.5 * train.std(axis=0) * rng.standard_normal(noisy.shape)
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))
    model.fit(noisy.astype(np.float32), np.repeat(train_y, 20))

    (out / "tumours").mkdir(parents=True, exist_ok=True)
    onnx = to_onnx(model, train[:1], options={id(model): {"zipmap": False}})
    (out / "tumours.onnx").write_bytes(onnx.SerializeToString())
    write(out / "tumours/train.csv.gz", data.feature_names, train, train_y)
    write(out / "tumours/test.csv.gz", data.feature_names, test, test_y)


if __name__ == "__main__":
    main()
