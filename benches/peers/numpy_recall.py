"""Batch recall in numpy, for benches/src/bin/cpu_reference_vs_numpy.rs: one run for each line on standard input.

usage: numpy_recall.py QUERIES.npy TARGETS.npy K
"""
import json
import sys
import time

import numpy as np

queries, targets, k = np.load(sys.argv[1]), np.load(sys.argv[2]), int(sys.argv[3])


def recall():
    scores = (queries / np.linalg.norm(queries, axis=1, keepdims=True)) @ (
        targets / np.linalg.norm(targets, axis=1, keepdims=True)
    ).T
    best = np.argpartition(-scores, k, axis=1)[:, :k]
    order = np.argsort(-np.take_along_axis(scores, best, 1), axis=1, kind="stable")
    return np.take_along_axis(best, order, 1)


for _ in sys.stdin:
    start = time.perf_counter()
    best = recall()
    seconds = time.perf_counter() - start
    print(json.dumps({"numpy": np.__version__, "seconds": seconds, "best": best.ravel().tolist()}), flush=True)
