"""The end of peer access under work, by CUDA's driver and NCCL alone: needs two GPUs with peer access, better three, and libnccl.so.2.

python3 peer_access.py                        # each case in a process of its own, because a failure ends the context
"""
import ctypes as C, os, subprocess, sys

CUDA, PTR, SIZE = C.CDLL("libcuda.so.1"), C.c_void_p, C.c_size_t
BYTES = 4 << 30

def contexts(count):
    CUDA.cuInit(0)
    made = [PTR() for _ in range(count)]
    for device, context in enumerate(made):
        assert CUDA.cuDevicePrimaryCtxRetain(C.byref(context), device) == 0
    return made

def on(context, call, *arguments):
    CUDA.cuCtxSetCurrent(context)
    return getattr(CUDA, call)(*arguments)

def allocate(context, bytes):
    place = C.c_uint64()
    assert on(context, "cuMemAlloc_v2", C.byref(place), SIZE(bytes)) == 0
    return place

def stream_of(context):
    stream = PTR()
    on(context, "cuStreamCreate", C.byref(stream), 1)
    return stream

def copies(call, enabled, disabled, at):
    """Copies from device 0 to device 1 on a stream of device `at`; access ends meanwhile."""
    c = contexts(max(2, at + 1))
    a, b, stream = allocate(c[0], BYTES), allocate(c[1], BYTES), stream_of(c[at])
    for first, second in enabled:
        assert on(c[first], "cuCtxEnablePeerAccess", c[second], 0) == 0
    arguments = (b, c[1], a, c[0], SIZE(BYTES), stream) if "Peer" in call else (b, a, SIZE(BYTES), stream)
    enqueued = [on(c[at], call, *arguments) for _ in range(20)]
    ended = [on(c[first], "cuCtxDisablePeerAccess", c[second]) for first, second in disabled]
    done = on(c[at], "cuStreamSynchronize", stream)
    print(f"{call}, stream of {at}: enabled {enabled}, then disabled {disabled}: enqueue {set(enqueued)}, disable {ended}, synchronize {done}")

def nccl():
    """All-reduces of NCCL after the end of access that was enabled before it began."""
    library, c = C.CDLL("libnccl.so.2"), contexts(2)
    memory, streams = [allocate(one, 1 << 28) for one in c], [stream_of(one) for one in c]
    both = lambda call, *more: [on(c[one], call, c[1 - one], *more) for one in (0, 1)]
    both("cuCtxEnablePeerAccess", 0)
    ranks = (PTR * 2)()
    library.ncclCommInitAll(ranks, 2, None)
    def reduce():
        library.ncclGroupStart()
        for one in (0, 1):
            at = PTR(memory[one].value)
            library.ncclAllReduce(at, at, SIZE(1 << 26), 7, 0, PTR(ranks[one]), streams[one])
        return library.ncclGroupEnd(), [on(c[one], "cuStreamSynchronize", streams[one]) for one in (0, 1)]
    print(f"NCCL, NCCL_CUMEM_ENABLE={os.environ.get('NCCL_CUMEM_ENABLE')}: all-reduce {reduce()}, disable {both('cuCtxDisablePeerAccess')}, all-reduce {reduce()}")

if len(sys.argv) > 1:
    eval(sys.argv[1])
else:
    run = lambda case, **more: subprocess.run([sys.executable, __file__, case], env={**os.environ, **more}, timeout=60)
    for call in ("cuMemcpyAsync", "cuMemcpyPeerAsync"):
        for pair in ((0, 1), (1, 0)):
            for at in (0, 1, 2):
                run(f"copies({call!r}, [{pair}], [{pair}], {at})")
        run(f"copies({call!r}, [(2, 0), (2, 1)], [(2, 0)], 2)")
    for enabled in ("0", "1"):
        run("nccl()", NCCL_CUMEM_ENABLE=enabled)
