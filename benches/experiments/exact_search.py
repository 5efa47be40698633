"""Runs the kernels of the exact search without the library, with PyTorch and CuPy, on a machine with a GPU and no Rust.

usage: exact_search.py time             times of the phases, of one call and with prepared targets, compared with the kernel without a filter and PyTorch
       exact_search.py random SECONDS   compares lists with the kernel without a filter: pathological rows, then random shapes
       exact_search.py errors           compares |filter's score - exact score| with the bound, over 10^9 pairs

It loads the files of kernels/ptx unchanged, and repeats the work of kernels/src/exact/{bound,plan,launch}.rs in Python.
"""

import math
import random
import sys
import time
from pathlib import Path

import cupy
import numpy
import torch

PTX = Path(__file__).resolve().parents[2] / "kernels" / "ptx"
SINGLE, HALF = torch.float32, torch.float16
SPECIAL = 256
STAGE_BYTES = 3 * 128 * 128
TILE_ELEMENTS = {"bf16": 64, "f16": 64, "int8": 128}
u32, u64, i32, f32 = cupy.uint32, cupy.uint64, cupy.int32, cupy.float32
modules = {}


def kernel(module, name):
    if module not in modules:
        modules[module] = cupy.RawModule(path=str(PTX / f"{module}.ptx"))
    return modules[module].get_function(name)


def launch(function, grid, threads, arguments, shared=0):
    if shared > 48 << 10:
        function.max_dynamic_shared_size_bytes = shared
    at = [u64(argument.data_ptr()) if isinstance(argument, torch.Tensor) else argument for argument in arguments]
    function(grid, (threads,), at, shared_mem=shared)


def empty(*shape, dtype=SINGLE):
    return torch.empty(*shape, device="cuda", dtype=dtype)


def up(value):
    single = numpy.float32(value)
    return float(single if float(single) >= value else numpy.nextafter(single, numpy.float32(math.inf)))


def constants(dim, cosine, format):
    tile, unit = TILE_ELEMENTS[format], 2.0**-24
    padded = -(-dim // tile) * tile
    exact, scaled = (padded + 2) * unit, 3 * unit
    kappa = up((scaled / (1 - scaled) if format == "int8" else 3 * padded * 2 * unit) + exact / (1 - exact))
    return f32(kappa), f32(up(padded * 2.0 ** (-68 if cosine else -120))), f32(up(1 + (dim + 16) * unit))


def type_name(rows):
    return "f32" if rows.dtype == SINGLE else "f16"


def prepare(rows, format, cosine, tile, specials, out=None):
    count, dim = rows.shape
    padded, blocks = -(-count // tile) * tile, -(-dim // TILE_ELEMENTS[format])
    out = out or (empty(count), empty(padded * blocks * 64, dtype=torch.int16), empty(padded), empty(padded, 2))
    function = kernel("exact_prepare", f"exact_prepare_{type_name(rows)}_{format}")
    numbers = (u64(0), u64(padded), u64(count), u64(dim), constants(dim, cosine, format)[2], u32(cosine))
    launch(function, (-(-padded // 8),), 256, (rows, *out, specials, *numbers))
    return out


class Targets:
    def __init__(self, rows, format, cosine=1):
        self.rows, self.format, self.cosine = rows, format, cosine
        self.count, self.dim = rows.shape
        self.blocks = -(-self.count // 256)
        self.tile_bounds, self.specials = empty(self.blocks, 2), empty(1 + SPECIAL, dtype=torch.int32)
        self.out = None
        self.convert()

    def convert(self):
        self.out = prepare(self.rows, self.format, self.cosine, 256, self.specials, self.out)
        self.norms, self.tiles, self.scales, self.bounds = self.out
        numbers = (u32(SPECIAL), u32(self.blocks), u32(self.count))
        function = kernel("exact_prepare", "exact_tile_bounds")
        launch(function, (-(-self.blocks // 8),), 256, (self.bounds, self.tile_bounds, self.specials, *numbers))


class Search:
    def __init__(self, architecture, queries, targets, k, capacity=None, stages=4):
        self.targets, self.k, self.count = targets, k, queries
        self.module = "exact_filter" if architecture == 80 else "exact_filter_90a"
        self.threads, self.stages = (256, stages) if architecture == 80 else (384, 4)
        self.multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
        self.capacity = capacity or (max(64 * k, 8192) if targets.format == "int8" else max(32 * k, 4096))
        self.survivors = min(max(1 << (4 * k - 1).bit_length(), 1024), 4096)
        wanted = min(max(-(-k // 4), -(-targets.blocks // (64 if k <= 64 else 32)), 1), targets.blocks)
        self.period = targets.blocks // wanted
        self.sampled = -(-targets.blocks // self.period)
        self.best, self.thresholds = empty(queries * self.sampled * 16), empty(queries)
        self.counts, self.kept = empty(queries, dtype=torch.int32), empty(queries * self.capacity, 2, dtype=torch.int32)
        self.given_up, self.sums = empty(queries + 1, dtype=torch.int32), torch.zeros(3, device="cuda", dtype=torch.int64)
        self.query_specials, self.out = empty(1, dtype=torch.int32), None
        self.scores, self.indices = empty(queries, k), empty(queries, k, dtype=torch.int32)
        self.gathered, self.gathered_norms = empty(queries, targets.dim), empty(queries)
        tiles = -(-targets.count // 128)
        self.chunk = 128 * max(1, -(-tiles // (4 * self.multiprocessors)), -(-k // 128))
        while queries * -(-targets.count // self.chunk) * k > 1 << 28:
            self.chunk *= 2
        self.chunks = -(-targets.count // self.chunk)
        self.part = (empty(queries * self.chunks * k), empty(queries * self.chunks * k, dtype=torch.int32))
        self.marks, self.first_of = None, 8

    def mark(self, name):
        if self.marks is not None:
            self.marks.append((name, torch.cuda.Event(enable_timing=True)))
            self.marks[-1][1].record()

    def filter(self, tiles, period):
        targets, (_, query_tiles, scales, bounds) = self.targets, self.out
        kappa, tiny, _ = constants(targets.dim, targets.cosine, targets.format)
        buffers = (query_tiles, targets.tiles, bounds, targets.tile_bounds, scales, targets.scales, self.thresholds, self.counts, self.kept)
        numbers = (u32(self.capacity), u32(self.count), u32(targets.count), u32(tiles), i32(period))
        rest = (u32(-(-targets.dim // TILE_ELEMENTS[targets.format])), kappa, tiny, u32(self.stages))
        grid = min(self.multiprocessors, -(-self.count // 128) * tiles)
        function = kernel(self.module, f"exact_filter_{targets.format}")
        launch(function, (grid,), self.threads, (*buffers, *numbers, *rest), self.stages * STAGE_BYTES)
        self.mark(f"filter {period}")

    def run(self, queries):
        targets, count, k = self.targets, self.count, self.k
        kappa, tiny, _ = constants(targets.dim, targets.cosine, targets.format)
        top, kind = "exact_top_k", type_name(targets.rows)
        self.mark("begin")
        self.out = prepare(queries, targets.format, targets.cosine, 128, self.query_specials, self.out)
        norms, query_tiles, scales, bounds = self.out
        self.mark("queries")
        groups = -(-count // 128)
        buffers = (query_tiles, targets.tiles, bounds, targets.bounds, targets.tile_bounds, scales, targets.scales, self.best)
        numbers = (u32(count), u32(self.sampled), i32(self.period), u32(-(-targets.dim // TILE_ELEMENTS[targets.format])), kappa, tiny, u32(self.stages))
        grid = (min(self.multiprocessors, groups * self.sampled),)
        function = kernel(self.module, f"exact_sample_{targets.format}")
        launch(function, grid, self.threads, (*buffers, *numbers), self.stages * STAGE_BYTES)
        self.mark("sample")
        exact = u32(targets.format == "int8")
        shared = 65 * 132 * 4 + int(exact) * 12 * k
        scored = (queries, targets.rows, norms, targets.norms, bounds)
        buffers = (*scored, self.best, self.thresholds, self.counts, self.given_up)
        numbers = (u64(targets.dim), u32(self.sampled * 16), u32(self.period), u32(self.capacity), u32(k), exact)
        launch(kernel(top, f"exact_thresholds_{kind}"), (count,), 256, (*buffers, *numbers), shared)
        self.mark("thresholds")
        if targets.blocks >= 8 * self.first_of:
            first = -(-targets.blocks // self.first_of)
            self.filter(first, self.first_of)
            buffers = (*scored, targets.bounds, self.thresholds, self.counts, self.kept, self.sums)
            numbers = (u64(targets.dim), u32(self.capacity), u32(k), exact, kappa, tiny)
            launch(kernel(top, f"exact_tighten_{kind}"), (count,), 256, (*buffers, *numbers), shared)
            self.mark("tighten")
            self.filter(targets.blocks - first, -self.first_of)
        else:
            self.filter(targets.blocks, 0)
        limits = self.capacity | self.survivors << 20 | SPECIAL << 36 | k << 48
        buffers = (queries, targets.rows, norms, targets.norms, bounds, targets.bounds, self.counts, self.kept)
        results = (targets.specials, self.given_up, self.sums, self.scores, self.indices)
        numbers = (u64(targets.dim), u64(limits), kappa, tiny)
        shared = 65 * 132 * 4 + self.survivors * 12
        launch(kernel(top, f"exact_rescore_{kind}"), (count,), 256, (*buffers, *results, *numbers), shared)
        self.mark("rescore")
        buffers = (queries, norms, self.given_up, self.gathered, self.gathered_norms)
        launch(kernel(top, "exact_gather"), (count,), 256, (*buffers, u64(targets.dim)))
        buffers = (self.gathered, targets.rows, self.gathered_norms, targets.norms, *self.part, self.given_up)
        numbers = (u64(targets.count), u64(targets.dim), u64(self.chunk), u32(k))
        some = "cosine_top_k_some"
        launch(kernel(some, f"cosine_top_k_partial_some_{kind}"), (groups, self.chunks), 256, (*buffers, *numbers))
        buffers = (*self.part, self.scores, self.indices, self.given_up)
        launch(kernel(some, "cosine_top_k_merge_some"), (count,), 32, (*buffers, u64(self.chunks), u32(k)), 10 * self.chunks)
        self.mark("fallback")
        return self.scores, self.indices


def reference(queries, rows, k, cosine=1):
    (count, dim), targets = queries.shape, rows.shape[0]
    norms = [torch.ones(number, device="cuda") for number in (count, targets)]
    if cosine:
        for all_rows, norm in zip((queries, rows), norms):
            function = kernel("cosine_top_k", f"row_inverse_norms_{type_name(all_rows)}")
            launch(function, (-(-len(norm) // 8),), 256, (all_rows, norm, u64(len(norm)), u64(dim)))
    groups, tiles = -(-count // 128), -(-targets // 128)
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    chunk = 128 * max(1, -(-tiles // max(1, 4 * multiprocessors // groups)), -(-k // 128))
    chunks = -(-targets // chunk)
    part = empty(count * chunks * k), empty(count * chunks * k, dtype=torch.int32)
    found = empty(count, k), empty(count, k, dtype=torch.int32)
    numbers = (u64(count), u64(targets), u64(dim), u64(chunk), u32(k))
    function = kernel("cosine_top_k", f"cosine_top_k_partial_{type_name(rows)}")
    launch(function, (groups, chunks), 256, (queries, rows, *norms, *part, *numbers))
    launch(kernel("cosine_top_k", "cosine_top_k_merge"), (count,), 32, (*part, *found, u64(chunks), u32(k)), 10 * chunks)
    return found


def same(found, right):
    return all(bool((a.view(torch.int32) == b.view(torch.int32)).all()) for a, b in zip(found, right))


def unit(count, dim, seed):
    rows = torch.randn(count, dim, device="cuda", generator=torch.Generator("cuda").manual_seed(seed))
    return rows / rows.norm(dim=1, keepdim=True)


def median(work, times=15, before=3):
    taken = []
    for number in range(before + times):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(2_000_000)  # the launches are enqueued meanwhile, so that the times are those of the GPU
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        if number >= before:
            taken.append(begin.elapsed_time(end))
    return round(sorted(taken)[times // 2], 3)


def phases(search, queries, times=9):
    taken = {}
    for _ in range(times):
        search.marks = []
        torch.cuda._sleep(2_000_000)
        search.run(queries)
        torch.cuda.synchronize()
        for (_, begin), (name, end) in zip(search.marks, search.marks[1:]):
            taken.setdefault(name, []).append(begin.elapsed_time(end))
    search.marks = None
    return {name: round(sorted(each)[times // 2], 4) for name, each in taken.items()}


def times():
    queries, rows = unit(1000, 768, 11), torch.cat([unit(250_000, 768, 20 + part) for part in range(4)])
    right = reference(queries, rows, 10)
    print("milliseconds; 1000 x 1,000,000 x 768, top 10, on", torch.cuda.get_device_name(0))
    print("without a filter", median(lambda: reference(queries, rows, 10), 3, 1))
    print("reading 3 GB, GB/s", round(rows.numel() * 4e-6 / median(rows.sum)))
    for format in ("int8", "f16", "bf16"):
        targets = Targets(rows, format)
        for architecture in (90, 80):
            search = Search(architecture, 1000, targets, 10)
            equal = same(search.run(queries), right)
            sums = [round(each / 1000, 1) for each in search.sums.tolist()]
            alone, conversion = median(lambda: search.run(queries)), median(targets.convert)
            both = median(lambda: (targets.convert(), search.run(queries)))
            print(f"sm_{architecture} {format}: equal {equal}, one call {both}, prepared {alone}, conversion {conversion}, fallbacks, candidates and scores a query {sums},", phases(search, queries))
        for count in (1, 10, 100):
            some, search = queries[:count].contiguous(), Search(90, count, targets, 10)
            equal = same(search.run(some), [part[:count] for part in right])
            print(f"{count} queries, {format}: equal {equal}, {median(lambda: search.run(some))},", phases(search, some))
    half = rows.half()
    for format in ("int8", "f16"):
        targets = Targets(half, format)
        search = Search(90, 1000, targets, 10)
        equal = same(search.run(queries), reference(queries, half, 10))
        print(f"f16 targets, {format}: equal {equal}, one call", median(lambda: (targets.convert(), search.run(queries))))
    del half, targets, search
    host = torch.empty(rows.shape, pin_memory=True)
    host.copy_(rows)
    for format in ("int8", "f16"):
        targets = Targets(rows, format)
        targets.rows = host
        search = Search(90, 1000, targets, 10)
        print(f"exact rows in pinned memory, {format}: equal {same(search.run(queries), right)}, prepared", median(lambda: search.run(queries), 5, 1))
    del host, targets, search
    for name, tf32, dtype in (("fp32", False, SINGLE), ("tf32", True, SINGLE), ("bf16", False, torch.bfloat16)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        a, b = queries.to(dtype), rows.to(dtype)
        print(f"PyTorch {name}: matmul + topk", median(lambda: torch.topk(a @ b.T, 10), 3, 1), "matmul", median(lambda: a @ b.T, 3, 1))


class Trials:
    def __init__(self, seconds):
        self.until, self.random = time.time() + seconds, random.Random(5)
        self.generator = torch.Generator("cuda").manual_seed(7)
        self.done = self.wrong = self.fallbacks = 0

    def rows(self, count, dim):
        return torch.randn(count, dim, device="cuda", generator=self.generator)

    def try_all(self, name, queries, rows, k, types=(SINGLE, HALF)):
        for architecture in (80, 90):
            for cosine in (1, 0):
                for format in ("bf16", "f16", "int8"):
                    if format == "f16" and not cosine and rows.abs().max().item() > 1e4:
                        continue  # beyond its range
                    for dtype in types:
                        typed = rows.to(dtype)
                        targets = Targets(typed, format, cosine)
                        search = Search(architecture, len(queries), targets, k, stages=self.random.choice((2, 3, 4)))
                        equal = same(search.run(queries), reference(queries, typed, k, cosine))
                        self.done, self.wrong = self.done + 1, self.wrong + (not equal)
                        self.fallbacks += search.sums[0].item()
                        if not equal:
                            print("WRONG", name, tuple(queries.shape), tuple(rows.shape), k, architecture, cosine, format, dtype)

    def run(self):
        count, dim = 60_000, 256
        queries, every, place = self.rows(200, dim), torch.arange(count, device="cuda"), None
        self.try_all("random", queries, self.rows(count, dim), 10)
        for clusters in (queries, self.rows(6, dim)):
            rows = clusters.repeat(count // len(clusters), 1)
            place = torch.randint(0, dim, (len(rows),), device="cuda", generator=self.generator)
            ulp = torch.randint(-1, 2, (len(rows),), device="cuda", generator=self.generator, dtype=torch.int32)
            rows[every[: len(rows)], place] = (rows[every[: len(rows)], place].view(torch.int32) + ulp).view(SINGLE)
            self.try_all("clustered", queries, rows, 12)
        self.try_all("all the same", queries, self.rows(1, dim).repeat(count, 1), 10, (SINGLE,))
        rows = self.rows(count, dim)
        order = (rows @ queries[0]).argsort()
        self.try_all("ascending", queries, rows[order], 10, (SINGLE,))
        self.try_all("descending", queries, rows[order.flip(0)], 10, (SINGLE,))
        for factor in (0.0, 1e-40, 1e-25, 1e15, 1e25, 3e38, math.nan, math.inf):
            rows, some = self.rows(count, dim), queries.clone()
            rows[::701] *= factor
            some[5::9] *= factor
            self.try_all(f"some times {factor}", some, rows, 10, (SINGLE,))
            rows[::9] *= factor
            self.try_all(f"many times {factor}", some, rows, 10, (SINGLE,))
            self.try_all(f"all times {factor}", queries[:20], self.rows(count, dim) * factor, 10, (SINGLE,))
        sizes = torch.exp2(torch.randint(-30, 10, (count, 1), device="cuda", generator=self.generator).float())
        self.try_all("sizes", queries, self.rows(count, dim) * sizes, 10, (SINGLE,))
        while time.time() < self.until:
            pick = self.random.choice
            count, targets = pick((1, 2, 10, 127, 128, 129, 300, 1000)), pick((300, 4097, 16385, 30_000, 70_001))
            dim = pick((1, 2, 3, 16, 63, 64, 65, 100, 128, 257, 768, 1000, 1024, 2048))
            k = min(targets, pick((1, 2, 10, 33, 64, 65, 100, 256, 1000, 1024)))
            self.try_all("random", self.rows(count, dim), self.rows(targets, dim), k)
        print(f"{self.done} searches, {self.wrong} wrong, {self.fallbacks} queries without a filter")


RATIO = r"""
extern "C" __global__ void ratio(const float *q, const float *t, const float *qn, const float *tn, const float2 *qb, const float2 *tb,
                                 const uint2 *kept, unsigned capacity, unsigned long long dim, float kappa, float tiny, float *worst) {
    unsigned query = blockIdx.y, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= capacity) return;
    uint2 c = kept[(unsigned long long)query * capacity + i];
    const float *a = q + query * dim, *b = t + c.x * dim;
    float sum = 0;
    for (unsigned long long j = 0; j < dim; j++) sum = fmaf(a[j], b[j], sum);
    float2 Q = qb[query], T = tb[c.x];
    float bound = __fmaf_ru(Q.x, T.y, __fmaf_ru(__fmaf_ru(kappa, Q.x, Q.y), T.x, tiny));
    float error = fabsf(__uint_as_float(c.y) - sum * qn[query] * tn[c.x]);
    atomicMax((int *)worst, __float_as_int(error / bound));
}
"""


def errors():
    ratio = cupy.RawKernel(RATIO, "ratio", options=("--fmad=false",))

    def one_way(count, dim, seed):  # every element is rounded by almost half a step, in the same direction
        bits = (1 + unit(count, dim, seed).abs() * 4).view(torch.int32)
        return (bits & ~0xFFFF | 0x7FFF).view(SINGLE)

    def largest(name, architecture, format, rounds, make, cosine=1):
        worst = torch.zeros(1, device="cuda")
        for number in range(rounds):
            queries, rows = make(number)
            targets = Targets(rows, format, cosine)
            search = Search(architecture, len(queries), targets, 1, capacity=len(rows))
            search.run(queries)
            search.thresholds.fill_(-math.inf)
            search.counts.zero_()
            search.filter(targets.blocks, 0)  # every pair is kept
            (norms, _, _, bounds), (kappa, tiny, _) = search.out, constants(targets.dim, cosine, format)
            buffers = (queries, rows, norms, targets.norms, bounds, targets.bounds, search.kept)
            grid = (-(-len(rows) // 256), len(queries))
            launch(ratio, grid, 256, (*buffers, u32(len(rows)), u64(targets.dim), kappa, tiny, worst))
        print(f"{name}, sm_{architecture} {format}, cosine {cosine}: the largest error is {worst.item():.3f} of the bound", flush=True)

    for architecture in (80, 90):
        for format in ("bf16", "f16", "int8"):
            largest("random unit rows, 2.7e8 pairs", architecture, format, 16, lambda n: (unit(1024, 768, n), unit(16384, 768, 1000 + n)))
        largest("rounded one way", architecture, "bf16", 2, lambda n: (one_way(256, 768, n), one_way(8192, 768, 1000 + n)), 0)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["time"]:
            times()
        case ["random", seconds]:
            Trials(float(seconds)).run()
        case ["errors"]:
            errors()
        case _:
            sys.exit(__doc__)
