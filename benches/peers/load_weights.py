"""Loads safetensors files with um-weights and with safetensors, and prints figures as JSON, one object after the other.

    cargo build --release -p um-weights --features cli
    python3 load_weights.py target/release/um_weights FOLDER [GIB]

Makes, one after the other in FOLDER, files of tensors of 32 MiB and of 128 KiB (GIB GiB, 8 by default) and of 16 KiB (an eighth of that), and one of half
a GiB for unified, pinned and ordinary memory. The files are in the page cache. Of three processes each loads a file five times: the first speed is that
of the first load of a process. GIB may be a fraction. Without torch and safetensors, or without their CUDA, only um-weights is measured: with
CUDA_UM_RUNTIME=sim on a machine without a GPU.
"""
import json
import random
import subprocess
import sys
import time
from pathlib import Path

try:
    import torch
    from safetensors import __version__, safe_open
    from safetensors.torch import load_file

    torch.cuda.init()
except (ImportError, AssertionError, RuntimeError) as error:
    torch, reason = None, error

program, folder, gib = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 8
folder.mkdir(exist_ok=True)
failed = []


def show(**values):
    print(json.dumps(values), flush=True)


def make(path, tensors, bytes_each):
    """Writes a file of float32 tensors. No two pieces of 4 MiB are equal: each begins with its number."""
    header, elements = {}, bytes_each // 4
    for index in range(tensors):
        header[f"t{index:06}"] = {"dtype": "F32", "shape": [elements], "data_offsets": [index * bytes_each, (index + 1) * bytes_each]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    block = random.Random(1).randbytes((4 << 20) - 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        left, number = tensors * bytes_each, 0
        while left:
            number += 1
            piece = (number.to_bytes(8, "little") + block)[:left]
            left -= file.write(piece)
    return path


def safetensors_ways(path, total):
    if torch is None:
        return
    for _ in range(3):
        for what, way in [("load_file", whole), ("prefetch, 8 threads", prefetched)]:
            torch.cuda.empty_cache()
            torch.cuda.synchronize()
            start = time.perf_counter()
            kept = way(path)
            torch.cuda.synchronize()
            seconds = time.perf_counter() - start
            show(what=f"safetensors {what}", file=path.name, seconds=seconds, gb_per_s=total / seconds / 1e9)
            del kept


def whole(path):
    return load_file(path, device="cuda")


def prefetched(path):
    with safe_open(path, framework="pt", device="cuda:0") as file:
        return [tensor for _, tensor in file.prefetch(threads=8)]


def ours(path, to):
    """Five loads of one process, three times."""
    for _ in range(3):
        command = [program, "load", str(path), "--to", to, "--times", "5", "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        report = json.loads(done.stdout) if done.returncode == 0 else {}
        show(what=f"um-weights to {to}", file=path.name, status=done.returncode, error=done.stderr.strip(), **report)
        if done.returncode:
            failed.append(command)


if torch is None:
    show(peers=f"not measured: {reason}")
else:
    show(safetensors=__version__, torch=torch.__version__, gpu=torch.cuda.get_device_name())
for name, tensors, bytes_each in [("large", gib * 32, 32 << 20), ("small", gib * 8192, 128 << 10), ("tiny", gib * 8192, 16 << 10)]:
    tensors = max(1, round(tensors))
    path = make(folder / f"{name}.safetensors", tensors, bytes_each)
    total = tensors * bytes_each
    ours(path, "cuda")
    safetensors_ways(path, total)
    path.unlink()
path = make(folder / "half.safetensors", 16, round(min(gib, 1) * (32 << 20)) // 4 * 4)
for to in ["unified", "pinned", "host"]:
    ours(path, to)
path.unlink()
show(done=not failed, failed=failed)
sys.exit(bool(failed))
