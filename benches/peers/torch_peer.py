"""PyTorch, for um_bench: see peer.py."""
from peer import operations, refuse, serve, time_copies, time_each, time_steps

import time

try:
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


serve(
    {
        "copy_from_host": copy_from_host,
        "copy_to_host": copy_to_host,
        "from_slice": from_slice,
        "round_trip": round_trip,
        "allocate": allocate,
        "step": step,
        "graph": graph,
    },
    f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}",
)
