#!/usr/bin/env python3
r"""Run the published code of RCP1 and BinCP on the splits of studies/conformal, and print a table for docs/conformal.md.

    git clone https://github.com/soroushzargar/RCP1 && git -C RCP1 checkout 3b6206d625880753032c123d69a3407c1fedb894
    go run ./studies/conformal -order orders.txt run/scores.npz
    python scripts/conformal_published.py --code RCP1 --order orders.txt --sigma 0.5 --name published run/scores.npz \
      0.5=attacked/scores.npz

For the tables of docs/conformal.md, use --name published (digits) and --name cifar-published (images). The authors'
repository RCP1 holds both methods. The script needs torch, scipy, statsmodels, scikit-learn and pandas. It calls the
classes RCP1 and BinCP with the settings of the authors' comparison demo/l2-guass-comparison.py: p_base 0.8 and
confidence_level 0.999. The module sparse_smoothing, which the classes import for graphs, is replaced by an empty one.
Each cell has the mean size, the coverage without attack and, if scores under this attack are given, the coverage under
attack, as in the table of studies/conformal.
"""

import argparse
import sys
import types

import numpy as np
import torch

SHIFTS, MISSES = (0.5, 1.0), (0.1, 0.05, 0.01)


def modules(folder):
    """Returns the classes RCP1 and BinCP of the published code."""
    cert = types.ModuleType("sparse_smoothing.cert")
    for name in ("regions_binary", "compute_rho", "binary_certificate_grid", "compute_rho_for_many"):
        setattr(cert, name, None)
    sys.modules["sparse_smoothing"], sys.modules["sparse_smoothing.cert"] = types.ModuleType("sparse_smoothing"), cert
    sys.path.insert(0, folder)
    from bin_cp.methods.bincp import BinCP
    from bin_cp.methods.rcp_one import RCP1

    return RCP1, BinCP


def read(path):
    """Returns the probabilities [examples, classes, draws] and the labels of a scores.npz."""
    with np.load(path) as z:
        return torch.from_numpy(z["scores"].transpose(0, 2, 1).copy()), torch.from_numpy(z["labels"].copy())


def measure(method, draws, scores, labels, attacked, orders):
    """Returns the mean size, the coverage and the coverage under attack (or None), as means over splits."""
    size, covered, under = [], [], []
    half = scores.shape[0] // 2
    for order in orders:
        calibration, queries = order[:half], order[half:]
        method.calibrate_from_scores(scores[calibration][:, :, :draws], labels[calibration])
        sets = method.predict_from_scores(scores[queries][:, :, :draws])
        rows = torch.arange(len(queries))
        size.append(sets.sum(dim=1).float().mean().item())
        covered.append(sets[rows, labels[queries]].float().mean().item())
        if attacked is not None:
            sets = method.predict_from_scores(attacked[queries][:, :, :draws])
            under.append(sets[rows, labels[queries]].float().mean().item())
    return np.mean(size), np.mean(covered), np.mean(under) if under else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--code", required=True, help="a clone of github.com/soroushzargar/RCP1")
    parser.add_argument("--order", required=True, help="the splits, from 'go run ./studies/conformal -order FILE'")
    parser.add_argument("--sigma", type=float, required=True, help="the scale of the noise")
    parser.add_argument("--name", required=True, help="the name of the table in docs/conformal.md")
    parser.add_argument("scores", help="the scores.npz of the run")
    parser.add_argument("attacks", nargs="*", help="RHO=SCORES, the scores under the attack with radius rho·sigma")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rcp1, bincp = modules(args.code)
    scores, labels = read(args.scores)
    attacks = {float(a.split("=", 1)[0]): read(a.split("=", 1)[1])[0] for a in args.attacks}
    with open(args.order) as lines:
        orders = [np.array(line.split(), dtype=np.int64) for line in lines]
    rows = {("RCP1", 1): "", ("BinCP", 100): "", ("BinCP", 512): ""}
    header, rule = "| published code | draws |", "| --- | --- |"
    for shift in SHIFTS:
        for miss in MISSES:
            header, rule = header + f" ρ = {shift:g}, miss {miss:g} |", rule + " --- |"
            common = dict(
                smoothing_sigma=args.sigma, n_dcal=len(labels) // 2, n_classes=scores.shape[1], nominal_coverage=1 - miss, r=shift * args.sigma
            )  # fmt: skip
            for (name, draws), cells in rows.items():
                method = rcp1(**common) if name == "RCP1" else bincp(**common, confidence_level=0.999, p_base=0.8)
                size, covered, under = measure(method, draws, scores, labels, attacks.get(shift), orders)
                found = f"{covered:.3f}" if under is None else f"{covered:.3f}, {under:.3f}"
                rows[name, draws] = f"{cells} {size:.3f} ({found}) |"
                print(f"{name}, {draws} draws, rho {shift:g}, miss {miss:g}: {size:.3f} ({found})", file=sys.stderr)
    lines = "\n".join(f"| {name} | {draws} |{cells}" for (name, draws), cells in rows.items())
    print(f"<!-- made: {args.name} -->\n\n{header}\n{rule}\n{lines}\n\n<!-- end: {args.name} -->")


if __name__ == "__main__":
    main()
