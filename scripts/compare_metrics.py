#!/usr/bin/env python3
"""Compares 'rscert metrics' with other programs on the same files; run by 'make compare-metrics'.

Prints the table of docs/metrics.md, with marks for studies/page. Each row has a figure by rscert and by another
program, this program's version, and the difference.
"""

import argparse
import gzip
import json
import subprocess
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

warnings.filterwarnings("ignore")

import calibration as uncertainty_calibration
import relplot
import torch
from netcal.metrics import ECE, MCE
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score
from torchmetrics.functional.classification import binary_calibration_error, multiclass_calibration_error

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "testdata" / "calibration"
BINS = 15


def rscert(binary, *args):
    """Return the document of 'rscert metrics --json'."""
    command = [binary, "metrics", *map(str, args), "--json", "--bins", str(BINS)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


class Table:
    """Rows that compare a figure of rscert with the same figure of another program."""

    def __init__(self):
        self.rows = []

    def compare(self, figure, ours, program, theirs):
        name = {"sklearn": "scikit-learn", "calibration": "uncertainty-calibration"}.get(program, program)
        self.rows.append(f"| {figure} | {ours:.6f} | {name} {version(name)} | {theirs:.6f} | {abs(ours - theirs):.1g} |")

    def print(self):
        print("<!-- made: agreement -->\n")
        print("| figure | rscert | program | its value | difference |\n| --- | ---: | --- | ---: | ---: |")
        print("\n".join(self.rows))
        print("\n<!-- end: agreement -->")


def compare_binary(binary, table):
    """Compares class-1 calibration on the flights. Some scores lie on edges of bins. Both programs use bins [lo,
    hi)."""
    with gzip.open(DATA / "scores.csv.gz", "rt") as f:
        score, label = np.loadtxt(f, delimiter=",", skiprows=1).T
    y = label.astype(int)
    found = rscert(binary, DATA / "scores.csv.gz", "--edge", "lower")
    s, t = torch.tensor(score, dtype=torch.float64), torch.tensor(y)
    for name, norm in (("ece", "l1"), ("mce", "max"), ("rmsce", "l2")):
        theirs = float(binary_calibration_error(s, t, n_bins=BINS, norm=norm))
        table.compare(f"flights, {name.upper()}", found[name]["value"], "torchmetrics", theirs)
    for name, metric in (("ece", ECE), ("mce", MCE)):
        table.compare(f"flights, {name.upper()}", found[name]["value"], "netcal", float(metric(BINS).measure(score, y)))
    table.compare("flights, Brier", found["brier"]["value"], "sklearn", brier_score_loss(y, score))
    table.compare("flights, NLL", found["nll"]["value"], "sklearn", log_loss(y, score))
    table.compare("flights, AUROC", found["auroc"]["value"], "sklearn", roc_auc_score(y, score))
    table.compare("flights, AUPRC", found["auprc"]["value"], "sklearn", average_precision_score(y, score))
    table.compare("flights, smooth ECE", found["smooth_ece"]["value"], "relplot", float(relplot.smECE(score, y)))
    bins = uncertainty_calibration.get_equal_bins(score, num_bins=BINS)
    data = list(zip(score, y))
    theirs = uncertainty_calibration.plugin_ce(uncertainty_calibration.bin(data, bins), power=2)
    table.compare("flights, RMSCE, equal counts", found["adarmsce"]["value"], "calibration", float(theirs))
    theirs = uncertainty_calibration.unbiased_l2_ce(uncertainty_calibration.bin(data, bins))
    table.compare("flights, debiased L2 error, equal counts", found["debiased_l2"]["value"], "calibration", float(theirs))


def compare_classes(binary, table):
    """Compares the calibration of the top label and of all ten classes, on the digits."""
    raw = np.load(DATA / "logits.npz")
    logits = raw["logits"].astype(np.float64)
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "probabilities.npz"
        np.savez(path, probabilities=p, labels=raw["labels"])
        found = rscert(binary, path)
    labels = raw["labels"].astype(int)
    theirs = float(multiclass_calibration_error(torch.tensor(p), torch.tensor(labels), num_classes=10, n_bins=BINS))
    table.compare("digits, top-label ECE", found["ece"]["value"], "torchmetrics", theirs)
    table.compare("digits, top-label ECE", found["ece"]["value"], "netcal", float(ECE(BINS).measure(p, labels)))
    table.compare("digits, Brier of all classes", found["multiclass_brier"]["value"], "sklearn",
                  brier_score_loss(labels, p, scale_by_half=False))
    table.compare("digits, NLL", found["nll"]["value"], "sklearn", log_loss(labels, p))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rscert", default=str(ROOT / "bin" / "rscert"))
    args = parser.parse_args()
    table = Table()
    compare_binary(args.rscert, table)
    compare_classes(args.rscert, table)
    table.print()


if __name__ == "__main__":
    main()
