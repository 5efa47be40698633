"""CuPy, for um_bench: see peer.py."""
from peer import refuse, serve, time_copies, time_each

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


serve(
    {
        "copy_from_host": copy_from_host,
        "copy_to_host": copy_to_host,
        "from_slice": from_slice,
        "allocate": allocate,
    },
    f"CuPy {cupy.__version__}, CUDA {cupy.cuda.runtime.runtimeGetVersion()}",
)
