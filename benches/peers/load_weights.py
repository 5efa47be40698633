"""Loads safetensors files with um_weights and with safetensors, file in the page cache, and prints GB/s for each as JSON lines.

    python3 load_weights.py UM_WEIGHTS FOLDER [GIB]

Makes, one after the other in FOLDER, files of tensors of 32 MiB and of 128 KiB (GIB GiB, 8 by default) and of 16 KiB (an eighth of that), and one of half
a GiB for unified memory. It compares no contents: the tests of um-weights do.
"""
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from safetensors import __version__, safe_open
from safetensors.torch import load_file

program, folder, gib = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 8
folder.mkdir(exist_ok=True)


def make(path, tensors, bytes_each):
    """Writes a file of float32 tensors with different random numbers."""
    header, elements = {}, bytes_each // 4
    for index in range(tensors):
        header[f"t{index:06}"] = {"dtype": "F32", "shape": [elements], "data_offsets": [index * bytes_each, (index + 1) * bytes_each]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    block = np.random.default_rng(1).random((64 << 20) // 4, dtype=np.float32)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        left, number = tensors * bytes_each, 0
        while left:
            number += 1
            piece = (block + number).tobytes()[: min(left, block.nbytes)]
            file.write(piece)
            left -= len(piece)
    return path


def tell(what, path, seconds, total, note=""):
    print(json.dumps({"what": what, "file": path.name, "seconds": seconds, "gb_per_s": total / seconds / 1e9, "note": note}), flush=True)


def safetensors_ways(path, total):
    for round_ in range(3):
        torch.cuda.empty_cache()
        torch.cuda.synchronize()
        start = time.perf_counter()
        loaded = load_file(path, device="cuda")
        torch.cuda.synchronize()
        tell("safetensors load_file", path, time.perf_counter() - start, total, f"round {round_}")
        del loaded
        torch.cuda.empty_cache()
        start = time.perf_counter()
        with safe_open(path, framework="pt", device="cuda:0") as file:
            loader = file.prefetch(threads=8)
            kept = [tensor for _, tensor in loader]
            torch.cuda.synchronize()
        tell("safetensors prefetch, 8 threads", path, time.perf_counter() - start, total, f"round {round_}")
        del kept, loader


def ours(path, to, *more):
    done = subprocess.run([program, "load", str(path), "--to", to, "--times", "3", "--json", *more], capture_output=True, text=True)
    print(json.dumps({"what": f"um_weights --to {to} {' '.join(more)}", "file": path.name, "status": done.returncode}), flush=True)
    print(done.stdout, done.stderr, flush=True)


print(json.dumps({"safetensors": __version__, "torch": torch.__version__, "gpu": torch.cuda.get_device_name()}), flush=True)
for name, tensors, bytes_each in [("large", gib * 32, 32 << 20), ("small", gib * 8192, 128 << 10), ("tiny", gib * 8192, 16 << 10)]:
    path = make(folder / f"{name}.safetensors", tensors, bytes_each)
    total = tensors * bytes_each
    ours(path, "cuda", "--compare")
    ours(path, "cuda")
    safetensors_ways(path, total)
    ours(path, "cuda")
    path.unlink()
path = make(folder / "unified.safetensors", 16, 32 << 20)
ours(path, "unified", "--compare")
ours(path, "pinned")
path.unlink()
