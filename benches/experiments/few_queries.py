"""Runs the kernels for few queries without the library, with PyTorch and CuPy, on a machine with a GPU and no Rust.

usage: few_queries.py time             times of the launches, and of a search with the wait, beside a plain read of the same bytes
       few_queries.py random SECONDS   compares lists with the kernel for many queries, bit for bit

It loads the files of kernels/ptx unchanged, and repeats the work of kernels/src/cosine_top_k/few{,_80}.rs in Python.
"""

import random
import sys
import time

import torch
from exact_search import HALF, SINGLE, empty, kernel, launch, median, reference, same, type_name, u32, u64, unit


class Search:
    def __init__(self, count, rows, k, cosine=1, portable=False):
        (self.targets, self.dim), self.rows, self.count, self.k, self.cosine, self.portable = rows.shape, rows, count, k, cosine, portable
        wanted, tiles, least = 4 * torch.cuda.get_device_properties(0).multi_processor_count, -(-self.targets // 128), -(-k // 128)
        self.each = max(-(-tiles // wanted), least)
        self.blocks = -(-tiles // self.each) if portable else min(max(tiles // least, 1), wanted)
        self.norms, self.next = torch.ones(count, device="cuda"), empty(1, dtype=torch.int32)
        self.target_norms = torch.ones(self.targets if portable else 1, device="cuda")
        self.part = empty(count * self.blocks * k), empty(count * self.blocks * k, dtype=torch.int32)
        self.found = empty(count, k), empty(count, k, dtype=torch.int32)

    def begin(self, queries):
        if not self.portable:
            arguments = (queries, self.norms, self.next, u64(self.dim), u32(self.cosine))
            launch(kernel("cosine_top_k_few_80", "cosine_top_k_few_80_begin"), (self.count,), 32, arguments)
        elif self.cosine:
            arguments = (queries, self.norms, u64(self.count), u64(self.dim))
            launch(kernel("cosine_top_k", "row_inverse_norms_f32"), (-(-self.count // 8),), 256, arguments)

    def lists(self, queries):
        kind, sizes = type_name(self.rows), (u64(self.count), u64(self.targets), u64(self.dim))
        if self.portable:
            most = 4 if self.count <= 4 else 12
            arguments = (queries, self.rows, self.norms, self.target_norms, *self.part, *sizes, u64(self.each * 128), u32(self.k), u32(self.cosine))
            launch(kernel("cosine_top_k_few", f"cosine_top_k_few_{most}_{kind}"), (1, self.blocks), 128, arguments)
        else:
            arguments = (queries, self.rows, self.norms, self.next, *self.part, *sizes, u32(self.k), u32(self.cosine))
            shared = 2 * 128 * (128 + -(-self.count // 2) * 2 * 4 // self.rows.element_size())
            launch(kernel("cosine_top_k_few_80", f"cosine_top_k_few_80_{kind}"), (1, self.blocks), 64, arguments, shared)

    def merge(self):
        arguments = (*self.part, *self.found, u64(self.blocks), u32(self.k))
        launch(kernel("cosine_top_k", "cosine_top_k_merge"), (self.count,), 32, arguments, 10 * self.blocks)

    def run(self, queries):
        self.begin(queries)
        self.lists(queries)
        self.merge()
        return self.found


def waited(work, times=21):
    taken = []
    for _ in range(times):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - begin)
    return sorted(taken)[times // 2] * 1e3


def times():
    queries, rows = unit(12, 768, 11), torch.cat([unit(250_000, 768, 20 + part) for part in range(4)])
    print("milliseconds; 1,000,000 x 768, top 10, on", torch.cuda.get_device_name(0))
    read = rows.numel() * 4e-6 / median(rows.sum)
    print("reading 3 GB, GB/s", round(read))
    for rows in (rows, rows.half()):
        for count in (1, 4, 10, 12):
            some = queries[:count].contiguous()
            right, gigabytes = reference(some, rows, 10), rows.numel() * rows.element_size() * 1e-6
            for portable in (True, False):
                search = Search(count, rows, 10, portable=portable)
                equal = same(search.run(some), right)
                both, all = median(lambda: (search.begin(some), search.lists(some))), median(lambda: search.run(some))
                wait = waited(lambda: search.run(some))
                name = "portable" if portable else "sm_80"
                print(f"{type_name(rows)}, {count} queries, {name}: equal {equal}, lists {both}, all launches {all}, with the wait {wait:.3f}:"
                      f" {gigabytes / wait:.0f} GB/s, {gigabytes / wait / read:.2f} of the read", flush=True)


def trials(seconds):
    until, pick, done, wrong = time.time() + seconds, random.Random(5).choice, 0, 0
    while time.time() < until:
        count, targets, dim = pick(range(1, 13)), pick((128, 1000, 16_385, 70_001, 300_000)), pick((128, 256, 384, 768, 1024))
        k, cosine, dtype = min(targets, pick((1, 2, 10, 32, 33, 100))), pick((0, 1)), pick((SINGLE, HALF))
        queries, rows = unit(count, dim, done), unit(targets, dim, 1000 + done).to(dtype)
        rows[:: pick((3, 97, 997))] = queries[0].to(dtype)  # equal scores
        rows[5], rows[7, 3] = 0, float("nan")
        right = reference(queries, rows, k, cosine)
        for portable in (True, False):
            search = Search(count, rows, k, cosine, portable)
            for _ in range(2):
                done, wrong = done + 1, wrong + (not same(search.run(queries), right))
    print(f"{done} searches, {wrong} wrong")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["time"]:
            times()
        case ["random", seconds]:
            trials(float(seconds))
        case _:
            sys.exit(__doc__)
