"""PyTorch, for um_bench: see peer.py."""
from peer import operations, refuse, serve, time_copies, time_each, time_steps

import importlib.util
import time

try:
    import numpy as np
    import torch
except Exception as error:  # noqa: BLE001: a broken installation is as good as none
    refuse(f"no PyTorch: {error}")
if not torch.cuda.is_available():
    refuse(f"PyTorch {torch.__version__} sees no GPU")

finish = torch.cuda.synchronize
kept = {}


def buffers(request, name, make):
    """Buffers of a case, allocated once and kept until the case changes."""
    key = (name, request["bytes"], request.get("pinned", False))
    if kept.get("key") != key:
        kept.update(key=None, buffers=None)
        torch.cuda.empty_cache()
        kept.update(key=key, buffers=make(request["bytes"] // 4, request.get("pinned", False)))
    return kept["buffers"]


def base(count):
    """Numbers from 1 to 2."""
    return torch.rand(count) + 1


def fresh(target, source, request):
    """Different numbers in each round, never zero."""
    torch.add(source, request["round"] % 1024, out=target)


def host(count, pinned):
    return torch.empty(count, pin_memory=pinned)


def copy_from_host(request):
    source, numbers, target = buffers(
        request, "in", lambda count, pinned: (host(count, pinned), base(count), torch.empty(count, device="cuda"))
    )
    fresh(source, numbers, request)
    seconds = time_copies(request, lambda: target.copy_(source, non_blocking=request["pinned"]), finish)
    return {"seconds": seconds, "verified": torch.equal(target.cpu(), source)}


def copy_to_host(request):
    target, numbers, source, expected = buffers(
        request,
        "out",
        lambda count, pinned: (host(count, pinned), base(count), torch.empty(count, device="cuda"), torch.empty(count)),
    )
    fresh(expected, numbers, request)
    source.copy_(expected)
    target.fill_(float("nan"))
    seconds = time_each(request["repeats"], lambda: target.copy_(source, non_blocking=request["pinned"]), finish)
    return {"seconds": seconds, "verified": torch.equal(target, expected)}


def from_slice(request):
    source, numbers = buffers(request, "new", lambda count, pinned: (torch.empty(count), base(count)))
    fresh(source, numbers, request)
    array, made = source.numpy(), []
    seconds = time_each(1, lambda: made.append(torch.from_numpy(array).cuda()), finish)
    return {"seconds": seconds, "verified": torch.equal(made[0].cpu(), source)}


def round_trip(request):
    source, numbers, back, given, result = buffers(
        request,
        "trip",
        lambda count, pinned: (
            torch.empty(count),
            base(count),
            torch.empty(count),
            torch.empty(count, device="cuda"),
            torch.empty(count, device="cuda"),
        ),
    )
    fresh(source, numbers, request)
    back.fill_(float("nan"))

    def trip():
        given.copy_(source)
        torch.mul(given, 2.0, out=result)
        back.copy_(result)

    seconds = time_each(request["repeats"], trip, finish)
    return {"seconds": seconds, "verified": torch.equal(back, source * 2)}


def allocate(request):
    count = request["bytes"] // 4

    def work():
        made = torch.empty(count, device="cuda")
        del made

    seconds = time_each(request["repeats"], work, finish)
    made = torch.full((count,), float(request["round"] + 1), device="cuda")
    return {"seconds": seconds, "verified": made[-1].item() == request["round"] + 1}


def step(request):
    """Temporaries from the caching allocator, on two streams."""
    plan, slots = operations(request), [None] * 64
    longest = max(count for letter, _, count in plan if letter == "c")
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    source, numbers = torch.empty(longest), base(longest)
    fresh(source, numbers, request)

    def run(whole=False):
        found, current = None, None
        for letter, slot, count in plan:
            if slot % 2 != current:
                current = slot % 2
                torch.cuda.set_stream(streams[current])
            if letter == "a":
                slots[slot] = torch.empty(count, device="cuda")
            elif letter == "k":
                slots[slot].mul_(2.0)
            elif letter == "f":
                slots[slot] = None
            elif letter == "c":
                slots[slot] = source[:count].cuda()
            else:
                found = slots[slot].cpu() if whole else slots[slot][0].item()
        return found

    try:
        seconds = time_steps(request, run, source[0].item() * request["factor"], finish)
        return {"seconds": seconds, "verified": torch.equal(run(whole=True), source * request["factor"])}
    finally:
        torch.cuda.set_stream(torch.cuda.default_stream())


def graph(request):
    """Kernels in a CUDAGraph; the time of one launch, alone or with its end."""
    key = ("graph", request["kernels"])
    if kept.get("key") != key:
        kept.clear()
        source, out = torch.empty(request["elements"], device="cuda"), torch.empty(request["elements"], device="cuda")
        torch.mul(source, 2.0, out=out)
        finish()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            for _ in range(request["kernels"]):
                torch.mul(source, 2.0, out=out)
        kept.update(key=key, graph=captured, source=source, out=out)
    kept["source"].copy_(base(request["elements"]))
    seconds = 0.0
    for _ in range(request["launches"]):
        finish()
        start = time.perf_counter()
        kept["graph"].replay()
        if request["wait"]:
            finish()
        seconds += time.perf_counter() - start
    finish()
    return {"seconds": seconds / request["launches"], "verified": torch.equal(kept["out"], kept["source"] * 2)}


def recall_load(request):
    kept.clear()
    torch.cuda.empty_cache()
    targets = np.fromfile(request["targets"], dtype=np.float32).reshape(-1, request["dim"])
    kept["targets"] = torch.from_numpy(targets).cuda()
    return {"verified": True, "others": [name for name in ("faiss", "cuvs") if importlib.util.find_spec(name)]}


def brute_force(name, queries, targets, k):
    """The exact search of another library: the inner products of unit vectors are their cosines."""
    if name == "faiss":
        import faiss
        import faiss.contrib.torch_utils  # noqa: F401: faiss takes tensors with it

        if name not in kept:
            kept[name] = faiss.StandardGpuResources()
        return faiss.knn_gpu(kept[name], queries, targets, k, metric=faiss.METRIC_INNER_PRODUCT)
    from cuvs.neighbors import brute_force as cuvs

    if name not in kept:
        kept[name] = cuvs.build(targets, metric="inner_product")
    scores, best = cuvs.search(kept[name], queries, k)
    return torch.as_tensor(scores, device="cuda"), torch.as_tensor(best, device="cuda")


def recall(request):
    queries = np.fromfile(request["queries"], dtype=np.float32).reshape(-1, request["dim"])
    queries, targets, found = torch.from_numpy(queries).cuda(), kept["targets"], {}
    torch.backends.cuda.matmul.allow_tf32 = request["precision"] == "tf32"
    if request["precision"] == "bf16":
        # The targets are converted once, like prepared targets.
        if "bf16" not in kept:
            kept["bf16"] = targets.bfloat16()
        queries, targets = queries.bfloat16(), kept["bf16"]

    def work():
        if request["precision"] in ("faiss", "cuvs"):
            found["best"] = brute_force(request["precision"], queries, targets, request["k"])
        else:
            found["best"] = torch.topk(queries @ targets.T, request["k"])

    seconds = time_each(1, work, finish)
    scores, best = found["best"]
    return {
        "seconds": seconds,
        "verified": list(scores.shape) == [len(queries), request["k"]],  # um_bench checks the numbers
        "scores": scores.float().cpu().ravel().tolist(),
        "best": best.cpu().ravel().tolist(),
    }


def recall_free(_request):
    kept.clear()
    torch.cuda.empty_cache()
    return {"verified": True}


serve(
    {
        "copy_from_host": copy_from_host,
        "copy_to_host": copy_to_host,
        "from_slice": from_slice,
        "round_trip": round_trip,
        "allocate": allocate,
        "step": step,
        "graph": graph,
        "recall_load": recall_load,
        "recall": recall,
        "recall_free": recall_free,
    },
    f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}",
)
