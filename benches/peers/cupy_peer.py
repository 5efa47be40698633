"""CuPy, for um_bench: see peer.py."""
from peer import operations, refuse, serve, time_copies, time_each, time_steps

try:
    import cupy
    import numpy as np

    cupy.cuda.runtime.getDeviceCount()
except Exception as error:  # noqa: BLE001: a broken installation is as good as none
    refuse(f"no CuPy, or it sees no GPU: {error}")

kept = {}
pools = {False: cupy.get_default_memory_pool(), True: cupy.cuda.MemoryPool(cupy.cuda.malloc_managed)}


def finish():
    cupy.cuda.Device().synchronize()


def buffers(request, name, make):
    """Buffers of a case, allocated once and kept until the case changes."""
    key = (name, request["bytes"])
    if kept.get("key") != key:
        kept.update(key=None, buffers=None)
        cupy.get_default_memory_pool().free_all_blocks()
        kept.update(key=key, buffers=make(request["bytes"] // 4))
    return kept["buffers"]


def base(count):
    """Numbers from 1 to 2."""
    return np.random.default_rng(1).random(count, dtype=np.float32) + 1


def fresh(target, source, request):
    """Different numbers in each round, never zero."""
    np.add(source, np.float32(request["round"] % 1024), out=target)


def copy_from_host(request):
    source, numbers, target = buffers(
        request, "in", lambda count: (np.empty(count, np.float32), base(count), cupy.empty(count, np.float32))
    )
    fresh(source, numbers, request)
    seconds = time_copies(request, lambda: target.set(source), finish)
    return {"seconds": seconds, "verified": bool(np.array_equal(target.get(), source))}


def copy_to_host(request):
    target, numbers, expected, source = buffers(
        request,
        "out",
        lambda count: (
            np.empty(count, np.float32),
            base(count),
            np.empty(count, np.float32),
            cupy.empty(count, np.float32),
        ),
    )
    fresh(expected, numbers, request)
    source.set(expected)
    target.fill(np.nan)
    seconds = time_each(request["repeats"], lambda: source.get(out=target), finish)
    return {"seconds": seconds, "verified": bool(np.array_equal(target, expected))}


def from_slice(request):
    source, numbers = buffers(request, "new", lambda count: (np.empty(count, np.float32), base(count)))
    fresh(source, numbers, request)
    made = []
    seconds = time_each(1, lambda: made.append(cupy.asarray(source)), finish)
    return {"seconds": seconds, "verified": bool(np.array_equal(made[0].get(), source))}


def allocate(request):
    count, pool = request["bytes"] // 4, pools[request.get("managed", False)]
    with cupy.cuda.using_allocator(pool.malloc):

        def work():
            made = cupy.empty(count, np.float32)
            del made

        seconds = time_each(request["repeats"], work, finish)
        made = cupy.empty(count, np.float32)
        made[-1] = request["round"] + 1
        right = made[-1].item() == request["round"] + 1
        del made
    if request.get("managed", False):
        pool.free_all_blocks()
    return {"seconds": seconds, "verified": right}


def step(request):
    """Temporaries from the memory pool, on two streams."""
    plan, slots = operations(request), [None] * 64
    longest = max(count for letter, _, count in plan if letter == "c")
    streams = [cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)]
    source, numbers = np.empty(longest, np.float32), base(longest)
    fresh(source, numbers, request)

    def run(whole=False):
        found, current = None, None
        for letter, slot, count in plan:
            if slot % 2 != current:
                current = slot % 2
                streams[current].use()
            if letter == "a":
                slots[slot] = cupy.empty(count, np.float32)
            elif letter == "k":
                slots[slot] *= 2.0
            elif letter == "f":
                slots[slot] = None
            elif letter == "c":
                slots[slot] = cupy.asarray(source[:count])
            else:
                found = slots[slot].get() if whole else slots[slot][0].item()
        return found

    try:
        seconds = time_steps(request, run, float(source[0]) * request["factor"], finish)
        right = np.array_equal(run(whole=True), source * np.float32(request["factor"]))
        return {"seconds": seconds, "verified": bool(right)}
    finally:
        cupy.cuda.Stream.null.use()


serve(
    {
        "copy_from_host": copy_from_host,
        "copy_to_host": copy_to_host,
        "from_slice": from_slice,
        "allocate": allocate,
        "step": step,
    },
    f"CuPy {cupy.__version__}, CUDA {cupy.cuda.runtime.runtimeGetVersion()}",
)
