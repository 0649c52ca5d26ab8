#!/usr/bin/env python3
"""Prints the figures that internal/calibrator/golden_test.go contains and that other programs compute.

Run it in two environments, because dirichletcal needs old versions of its dependencies:

    pip install numpy==2.4.6 numba==0.68.1 probmetrics==1.3.0 venn-abers==1.5.4
    python scripts/calibrators_golden.py venn-abers structured
    pip install 'setuptools<58' wheel==0.37.1 numpy==1.23.5 scipy==1.10.1 jax==0.4.13 jaxlib==0.4.13 scikit-learn==1.2.2
    pip install --no-deps --no-build-isolation dirichletcal==0.3.dev4
    python scripts/calibrators_golden.py dirichlet      (Python 3.11)
"""

import sys

import numpy as np


def golden_scores():
    """The scores and labels of goldenScores in internal/calibrator/calibrator_test.go."""
    score = np.array([(i * 37 % 101 + 0.5) / 101 for i in range(240)])
    label = np.array([((i * i * 7 + i) % 17) / 17 < score[i] ** 1.5 for i in range(240)]).astype(int)
    return score, label


def golden_logits():
    """The logits and labels of goldenLogits in internal/calibrator/calibrator_test.go."""
    logits, label = [], []
    for i in range(240):
        row = [((i * 7 + k * 13) % 23 - 11) / 4 * (2 if k == i * i % 4 else 1) for k in range(4)]
        order = sorted(range(4), key=lambda k: row[k])
        label.append(order[3 - (i * i * 5 + i) % 7 // 3])
        logits.append(row)
    return np.array(logits), np.array(label)


def golden_probabilities():
    logits, label = golden_logits()
    p = np.exp(logits - logits.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True), label


def show(name, values):
    print(name, ", ".join(repr(float(x)) for x in np.ravel(values)))


def venn_abers():
    from venn_abers import VennAbers

    score, label = golden_scores()
    tests = np.array([0, 0.1, 0.25, 0.4, 0.5, 0.613, 0.7, 0.85, 1])
    model = VennAbers()
    model.fit(np.stack([1 - score, score], 1), label)
    merged, pair = model.predict_proba(np.stack([1 - tests, tests], 1))
    show("venn-abers p0", pair[:, 0])
    show("venn-abers p1", pair[:, 1])
    show("venn-abers merged", merged[:, 1])


def structured():
    from probmetrics.calibrators import get_calibrator

    p, label = golden_probabilities()
    for name in "svs", "sms":
        # The default solver, bfgs, stops at a loss that is 7e-7 above the minimum.
        model = get_calibrator(name, **{name + "_opt": "saga", name + "_tol": 1e-10, name + "_max_iter": 20000})
        model.fit(p, label)
        show(name + " probabilities of rows 0, 100, 200:", model.predict_proba(p)[[0, 100, 200]])


def dirichlet():
    import scipy.linalg

    # dirichletcal uses a name and a call that the oldest versions for Python 3.11 no longer have.
    scipy.linalg.pinv2 = scipy.linalg.pinv
    from dirichletcal.calib import multinomial
    from dirichletcal.calib.fulldirichlet import FullDirichletCalibrator
    from sklearn.preprocessing import label_binarize

    multinomial.label_binarize = lambda y, classes: label_binarize(y, classes=classes)

    p, label = golden_probabilities()
    for reg_mu in 2e-3, None:
        model = FullDirichletCalibrator(reg_lambda=1e-3, reg_mu=reg_mu, ref_row=False)
        model.fit(p, label)
        show(f"dirichlet, reg_mu {reg_mu}, probabilities of rows 0, 100, 200:", model.predict_proba(p)[[0, 100, 200]])
        show("W and b:", model.calibrator_.weights_)


if __name__ == "__main__":
    for part in sys.argv[1:]:
        {"venn-abers": venn_abers, "structured": structured, "dirichlet": dirichlet}[part]()
