"""Writes *.gz: small pickled batches in the layout of CIFAR's Python version, as this Python and this NumPy write them.
Needs numpy. The files here are by Python 2.7 with NumPy 1.16, Python 3.11 with NumPy 1.26, and Python 3.11 with NumPy 2.4:

    cd testdata/pickle && python2 make.py && python3 make.py
"""
import gzip
import pickle
import sys

import numpy as np

PYTHON = sys.version_info[0]
N = 3  # images
BY = "python%d-numpy%s" % (PYTHON, np.__version__.split(".")[0])


def pixel(i, channel, row, column):
    """A byte that differs in every direction; cifar_python_test.go has the same formula."""
    return (101 * i + 67 * channel + 8 * row + 3 * column) % 256


data = np.array([[pixel(i, c, h, w) for c in range(3) for h in range(32) for w in range(32)] for i in range(N)], np.uint8)


def write(name, value, protocol, dump=pickle.dumps):
    with open("%s-%s-protocol%d.gz" % (name, BY, protocol), "wb") as f:
        g = gzip.GzipFile("", "wb", 9, f, 0)
        g.write(dump(value, protocol))
        g.close()


def batch(text, **labels):
    """A batch whose keys and texts are made by text: str or bytes."""
    d = {text("batch_label"): text("testing batch 1 of 1"), text("data"): data,
         text("filenames"): [text("domestic_cat_s_%06d.png" % i) for i in range(N)]}
    d.update((text(key), value) for key, value in labels.items())
    return d


def as_bytes(s):
    return s.encode("latin1")


ten = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
fine, coarse = ["fine %d" % k for k in range(100)], ["coarse %d" % k for k in range(20)]
labels, fines, coarses = [3, 8, 0], [49, 99, 0], [10, 19, 4]
for protocol in range(2, 3 if PYTHON == 2 else 6):
    write("cifar10", batch(str, labels=labels), protocol)
    write("cifar100", batch(as_bytes, fine_labels=fines, coarse_labels=coarses), protocol)
    write("arrays", dict(batch(str), data=np.asfortranarray(data), labels=np.array(labels)), protocol)
    write("meta10", {"num_cases_per_batch": 10000, "label_names": ten, "num_vis": 3072}, protocol)
if PYTHON == 2:
    import cPickle  # which CIFAR was written by
    write("cifar10-c", batch(str, labels=labels), 2, cPickle.dumps)
    write("cifar100-c", batch(str, fine_labels=fines, coarse_labels=coarses), 2, cPickle.dumps)
    write("meta100-c", {"fine_label_names": fine, "coarse_label_names": coarse}, 2, cPickle.dumps)
