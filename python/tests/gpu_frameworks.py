"""PyTorch, CuPy, JAX and NumPy beside cuda_um on a GPU. Prints a table, and fails on any mistake.

    CUDA_UM_RUNTIME=cuda python gpu_frameworks.py [repetitions]

A framework that is not installed is a row that says so.
"""

import ctypes
import gc
import importlib
import importlib.util
import os
import subprocess
import sys
import time
import traceback

os.environ.setdefault("CUDA_UM_RUNTIME", "cuda")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import numpy as np

REPETITIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
ELEMENTS = 1 << 18
SLOW_CYCLES = 200_000  # about 0.1 ms
KINDS = ["unified", "device"]


def load(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


# The frameworks first: the library then uses the CUDA runtime that they have loaded.
torch, cupy, jax = load("torch"), load("cupy"), load("jax")
load("jax.dlpack")

import cuda_um  # noqa: E402

if torch:
    import cuda_um.torch
if cupy:
    import cuda_um.cupy

rows = failures = 0


def row(framework, what, run, needs=True):
    """Runs a check, and prints its row."""
    global rows, failures
    start, rows = time.perf_counter(), rows + 1
    if not needs:
        print(f"{framework:8} {what:46} not installed", flush=True)
        return
    try:
        outcome = run() or "ok"
    except Exception:
        failures += 1
        outcome = "FAILED: " + traceback.format_exc(limit=3).strip().splitlines()[-1]
        traceback.print_exc()
    gc.collect()
    print(f"{framework:8} {what:46} {time.perf_counter() - start:6.2f} s  {outcome}", flush=True)


def address(array):
    return array.__cuda_array_interface__["data"][0]


def address_in_capsule(array):
    """The address without the CUDA Array Interface, which lends the memory for good."""
    return cuda_um.from_dlpack(array).__cuda_array_interface__["data"][0]


def host(array, index=-1):
    with array.numpy() as elements:
        return float(elements[index])


def live_bytes():
    gc.collect()
    cuda_um.synchronize()
    return sum(pool["live_bytes"] for pool in cuda_um.pool_stats().values())


def equal(found, expected):
    assert found == expected, f"{found} instead of {expected}"


class Asks:
    """Asks an array for another device type, as a consumer with its own choice does."""

    def __init__(self, array, device):
        self.array, self.device = array, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**{**arguments, "dl_device": self.device})


# PyTorch


def torch_writes(kind):
    array = cuda_um.zeros(ELEMENTS, kind=kind)
    tensor = torch.from_dlpack(array)
    equal(tensor.data_ptr(), address_in_capsule(array))
    stream = torch.cuda.Stream()
    for i in range(REPETITIONS):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(SLOW_CYCLES)
            tensor.add_(1)
        equal(host(array), i + 1)  # the host waits for a stream that the library does not know
    for i in range(REPETITIONS):
        with torch.cuda.stream(stream):
            torch.cuda._sleep(SLOW_CYCLES)
            tensor.fill_(-1)
        array.fill(i)
        with torch.cuda.stream(stream):
            equal(float(tensor[-1]), i)  # the fill comes after their kernel, and before their read


def torch_waits(kind):
    array = cuda_um.zeros(16 * ELEMENTS, kind=kind)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(REPETITIONS):
            array.fill(i)
            tensor = torch.from_dlpack(array)  # their stream waits for our fill
            equal(float(tensor[-1]), i)
            del tensor


def torch_imports():
    for i in range(REPETITIONS):
        torch.cuda._sleep(SLOW_CYCLES)
        tensor = torch.full((ELEMENTS,), float(i), device="cuda")
        array = cuda_um.from_dlpack(tensor)  # our stream waits for their kernels
        equal(array.kind, "device")
        equal(host(array), i)
    equal(address(array), tensor.data_ptr())
    array.fill(7)
    cuda_um.synchronize()
    equal(float(tensor[0]), 7)
    kept = torch.cuda.memory_allocated()
    del tensor
    gc.collect()
    equal(torch.cuda.memory_allocated(), kept)
    del array
    gc.collect()
    cuda_um.synchronize()
    assert torch.cuda.memory_allocated() < kept, "the tensor is still allocated"


def torch_frees(kind):
    before = live_bytes()
    stream = torch.cuda.Stream()
    for _ in range(REPETITIONS):
        array = cuda_um.zeros(ELEMENTS, kind=kind)
        tensor = torch.from_dlpack(array)
        with torch.cuda.stream(stream):
            torch.cuda._sleep(SLOW_CYCLES)
            tensor.add_(1)
        del array, tensor  # their kernel may still run
    torch.cuda.synchronize()
    equal(live_bytes(), before)


def torch_without_a_wait():
    array = cuda_um.zeros(ELEMENTS)
    tensor, view = torch.from_dlpack(array), np.from_dlpack(array, device="cpu")
    stale = 0
    for i in range(1, REPETITIONS // 10 + 1):
        torch.cuda._sleep(SLOW_CYCLES)
        tensor.fill_(i)
        stale += int(view[-1] != i)
        torch.cuda.synchronize()
    assert 2 * stale > i, f"{stale} of {i} reads are stale: the other checks may see correct values by chance"
    return f"{stale} of {i} reads are stale, as they must be"


def torch_refuses_13():
    array = cuda_um.zeros(16)
    try:
        torch.from_dlpack(Asks(array, (13, 0)))
    except (BufferError, RuntimeError, ValueError) as refused:
        return f"refused by PyTorch: {str(refused).splitlines()[0][:60]}"
    return "accepted by this PyTorch"


def torch_cai():
    array = cuda_um.zeros(ELEMENTS)
    array.fill(3)
    tensor = torch.as_tensor(array, device="cuda")
    equal(tensor.data_ptr(), address(array))
    tensor.add_(1)
    equal(host(array), 4)


def torch_dtypes():
    names = "bool float16 bfloat16 float32 float64 complex64 complex128 int8 int16 int32 int64 uint8"
    for name in names.split():
        array = cuda_um.zeros(8, name)
        array.fill(1)
        tensor = torch.from_dlpack(array)
        equal(tensor.dtype, getattr(torch, name))
        equal(cuda_um.from_dlpack(tensor).dtype, name)
        assert bool((tensor == torch.ones(8, dtype=tensor.dtype, device="cuda")).all()), name


# CuPy

SLOW = r"""
extern "C" __global__ void slow(float* x, int n, float by, long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) {}
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += by;
}
"""


def cupy_writes(kind, device):
    kernel = cupy.RawKernel(SLOW, "slow")
    array = cuda_um.zeros(ELEMENTS, kind=kind)
    theirs = cupy.from_dlpack(Asks(array, (device, 0)))
    equal(theirs.data.ptr, address_in_capsule(array))
    stream = cupy.cuda.Stream(non_blocking=True)
    for i in range(REPETITIONS):
        with stream:
            kernel((ELEMENTS // 256,), (256,), (theirs, np.int32(ELEMENTS), np.float32(1), np.int64(20_000)))
        equal(host(array), i + 1)


def cupy_imports_managed():
    previous = cupy.cuda.get_allocator()
    cupy.cuda.set_allocator(cupy.cuda.malloc_managed)
    try:
        for i in range(REPETITIONS // 10):
            theirs = cupy.full(ELEMENTS, i, dtype="float32")
            array = cuda_um.from_dlpack(theirs)
            equal(array.kind, "unified")
            equal(address(array), theirs.data.ptr)
            equal(host(array), i)
            with array.numpy(write=True) as elements:
                elements[-1] = i + 0.5
            del elements
            equal(float(theirs[-1]), i + 0.5)
            assert array.prefetch("device")
    finally:
        cupy.cuda.set_allocator(previous)


def cupy_imports_device():
    theirs = cupy.arange(ELEMENTS, dtype="float32")
    array = cuda_um.from_dlpack(theirs)
    equal((array.kind, address(array), host(array)), ("device", theirs.data.ptr, ELEMENTS - 1.0))


def cupy_cai(kind):
    array = cuda_um.zeros(ELEMENTS, kind=kind)
    for i in range(REPETITIONS // 10):
        array.fill(i)
        theirs = cupy.asarray(array)
        equal(theirs.data.ptr, address(array))
        theirs += 1
        equal(host(array), i + 1)


# The library's memory in the frameworks


def torch_pool(kind):
    pool = cuda_um.torch.mem_pool(kind=kind, name="torch")
    with torch.cuda.use_mem_pool(pool):
        tensors = [torch.full((ELEMENTS,), float(i), device="cuda") for i in range(REPETITIONS // 10)]
        streams = [torch.cuda.Stream() for _ in range(4)]
        for i in range(REPETITIONS):
            with torch.cuda.stream(streams[i % 4]):
                torch.cuda._sleep(SLOW_CYCLES)
                equal(float(torch.full((ELEMENTS,), float(i), device="cuda")[-1]), i)
    equal([float(tensor[-1]) for tensor in tensors], [float(i) for i in range(len(tensors))])
    live = pool.stats()["live_bytes"]
    assert live >= len(tensors) * ELEMENTS * 4, live
    if kind == "unified":
        torch.cuda.synchronize()
        equal(ctypes.c_float.from_address(tensors[7].data_ptr()).value, 7.0)
    del tensors
    torch.cuda.empty_cache()
    stats = pool.stats()
    del pool
    gc.collect()
    torch.cuda.empty_cache()
    return f"{live >> 20} MiB live, {stats['live_bytes'] >> 20} MiB after empty_cache"


def torch_graph():
    pool = cuda_um.torch.mem_pool(name="graph")
    graph, x = torch.cuda.CUDAGraph(), torch.ones(ELEMENTS, device="cuda")
    with torch.cuda.use_mem_pool(pool):
        with torch.cuda.graph(graph):
            y = x * 2 + torch.arange(ELEMENTS, device="cuda")
    for i in range(10):
        x.fill_(i)
        graph.replay()
        equal(float(y[-1]), 2.0 * i + ELEMENTS - 1)


def torch_out_of_memory():
    pool = cuda_um.torch.mem_pool(name="large")
    _, total = cuda_um.memory_info()
    try:
        with torch.cuda.use_mem_pool(pool):
            torch.empty(2 * total, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        assert "free of" in pool.last_error, pool.last_error
        return str(error).splitlines()[0][:60]
    raise AssertionError("more memory than there is")


def torch_step():
    """A training step of a transformer block: the default allocator, and the library's pool."""

    def steps(count):
        torch.manual_seed(0)
        block = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0.0).cuda()
        optimizer = torch.optim.Adam(block.parameters())
        x = torch.randn(8, 256, 1024, device="cuda")
        times = []
        for _ in range(count):
            torch.cuda.synchronize()
            start = time.perf_counter()
            optimizer.zero_grad(set_to_none=True)
            loss = block(x).square().mean()
            loss.backward()
            optimizer.step()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        return sorted(times[count // 5 :])[len(times[count // 5 :]) // 2], float(loss)

    steps(20)
    plain, pooled = [], []
    for _ in range(3):
        plain.append(steps(60))
        with torch.cuda.use_mem_pool(cuda_um.torch.mem_pool(name="step")):
            pooled.append(steps(60))
    equal(pooled[0][1], plain[0][1])
    default, ours = min(plain)[0], min(pooled)[0]
    return f"{default * 1e3:.3f} ms, with our pool {ours / default:.3f} of it"


def torch_hints():
    with torch.cuda.use_mem_pool(cuda_um.torch.mem_pool(name="hints")):
        tensors = {name: torch.full((ELEMENTS,), 3.0, device="cuda", requires_grad=True) for name in "abc"}
    side = torch.cuda.Stream()
    for i in range(REPETITIONS // 10):
        assert cuda_um.prefetch(tensors, "host")
        with torch.cuda.stream(side):
            assert cuda_um.prefetch([tensors["a"][i::2].detach(), tensors["b"]], "device")
        equal([float(tensor.detach().sum()) for tensor in tensors.values()], [3.0 * ELEMENTS] * 3)
    assert cuda_um.advise(tensors, "preferred_location", "device")
    try:
        cuda_um.prefetch([tensors["a"], torch.ones(4, device="cuda")], "host")
    except cuda_um.ArgumentError as error:
        assert "tensors[1]" in str(error) and "mem_pool" in str(error)
    else:
        raise AssertionError("memory of PyTorch's own allocator migrates")
    return f"residency {cuda_um.residency(tensors['a'])}"


def torch_offload():
    """A model of 1 GiB leaves the GPU and comes back, beside copies by PyTorch to the host and back."""

    def model():
        return torch.nn.Sequential(*[torch.nn.Linear(4096, 4096, bias=False, device="cuda") for _ in range(16)])

    def milliseconds(*moves):
        times = []
        for move in moves:
            torch.cuda.synchronize()
            start = time.perf_counter()
            move()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) * 1e3)
        return times

    pool = cuda_um.torch.mem_pool(name="model")
    with torch.cuda.use_mem_pool(pool), torch.no_grad():
        ours, x = model(), torch.ones(1, 4096, device="cuda")
        before, addresses = ours(x), [weight.data_ptr() for weight in ours.parameters()]
        free, _ = torch.cuda.mem_get_info()
        for _ in range(3):
            out, back = milliseconds(lambda: cuda_um.offload(ours), lambda: cuda_um.restore(ours))
        cuda_um.offload(ours)
        torch.cuda.synchronize()
        gained = torch.cuda.mem_get_info()[0] - free
        cuda_um.restore(ours)
        equal(addresses, [weight.data_ptr() for weight in ours.parameters()])
        assert torch.equal(ours(x), before)
    theirs = model()
    for _ in range(3):
        to_cpu, to_gpu = milliseconds(lambda: theirs.to("cpu"), lambda: theirs.to("cuda"))
    return (
        f"out {out:.1f} ms and back {back:.1f} ms, {gained >> 20} MiB free meanwhile; "
        f'module.to("cpu") {to_cpu:.1f} ms, to("cuda") {to_gpu:.1f} ms'
    )


def cupy_hints():
    previous = cupy.cuda.get_allocator()
    cupy.cuda.set_allocator(cuda_um.cupy.allocator(name="hints"))
    try:
        streams = [cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream.null]
        arrays = [cupy.full(ELEMENTS, 3, dtype="float32") for _ in range(3)]
        cupy.cuda.Device().synchronize()
        for i in range(REPETITIONS // 10):
            with streams[i % 2]:
                assert cuda_um.prefetch([arrays[0], arrays[1][::-2], arrays[2][10:]], ("host", "device")[i % 2])
                equal([float(array.sum()) for array in arrays], [3.0 * ELEMENTS] * 3)
        assert cuda_um.advise(arrays, "read_mostly") and cuda_um.advise(arrays, "read_mostly", unset=True)
        del arrays
    finally:
        cupy.cuda.set_allocator(previous)


def cupy_allocator(kind):
    previous, allocate = cupy.cuda.get_allocator(), cuda_um.cupy.allocator(kind=kind, name="cupy")
    cupy.cuda.set_allocator(allocate)
    try:
        kernel = cupy.RawKernel(SLOW, "slow")
        streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
        for i in range(REPETITIONS):
            with streams[i % 4]:
                x = cupy.full(ELEMENTS, i, dtype="float32")
                kernel((ELEMENTS // 256,), (256,), (x, np.int32(ELEMENTS), np.float32(1), np.int64(20_000)))
                y = x * 2  # x's memory is freed while kernels use it, and a later stream gets it
                del x
                equal(float(y[-1]), 2.0 * i + 2)
        _, total = cuda_um.memory_info()
        try:
            cupy.empty(2 * total, dtype="uint8")
        except cupy.cuda.memory.OutOfMemoryError as error:
            assert "free of" in str(error.__cause__)
        else:
            raise AssertionError("more than the GPU has was allocated")
        del y
        gc.collect()
        equal(allocate.stats()["live_bytes"], 0)
        stream = cupy.cuda.get_current_stream()
        times = []
        for malloc in allocate, cupy.cuda.MemoryPool(allocate).malloc, previous:
            cupy.cuda.set_allocator(malloc)
            start = time.perf_counter()
            for _ in range(10_000):
                cupy.empty(1000, dtype="uint8")
            times.append((time.perf_counter() - start) * 100)
            stream.synchronize()
        return "1000 bytes: {:.1f} us each, in CuPy's pool over it {:.1f} us, CuPy's own {:.1f} us".format(*times)
    finally:
        cupy.cuda.set_allocator(previous)


def numba_plugin():
    def run(*program, **environment):
        command = [sys.executable, *program]
        return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)

    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "numba_program.py")
    done = run(program, NUMBA_CUDA_MEMORY_MANAGER="cuda_um.numba")
    if done.returncode:
        alone = run("-c", "from numba import cuda\n@cuda.jit\ndef f(x):\n    x[0] = 1\nf[1, 1](cuda.device_array(1))")
        assert alone.returncode, done.stderr
        return "not run, Numba itself fails: " + alone.stderr.strip().splitlines()[-1]


# JAX


def jax_reads(kind):
    array = cuda_um.zeros(ELEMENTS, kind=kind)
    slow = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda _, y: y + x - y, x).max())
    for i in range(REPETITIONS):
        array.fill(i)
        theirs = jax.dlpack.from_dlpack(array)
        found = slow(theirs)
        equal(float(found), i)
        if i == 0:
            equal(theirs.unsafe_buffer_pointer(), address_in_capsule(array))
        del theirs, found


def jax_imports():
    for i in range(REPETITIONS // 10):
        theirs = jax.numpy.full(ELEMENTS, float(i), dtype="float32")
        array = cuda_um.from_dlpack(theirs)
        equal((array.kind, host(array)), ("device", i))
        equal(address(array), theirs.unsafe_buffer_pointer())


# NumPy


def numpy_shares():
    array = cuda_um.zeros(ELEMENTS)
    theirs = np.from_dlpack(array, device="cpu")
    equal(theirs.ctypes.data, address_in_capsule(array))
    for i in range(REPETITIONS):
        array.fill(i)
        equal(float(theirs[-1]), i)
        theirs[0] = i + 1
        equal(host(array, 0), i + 1)


def all_at_once():
    array = cuda_um.zeros(ELEMENTS)
    tensor, theirs = torch.from_dlpack(array), cupy.from_dlpack(Asks(array, (13, 0)))
    view = np.from_dlpack(array, device="cpu")
    for i in range(REPETITIONS // 10):
        tensor.fill_(i)
        equal(host(array), i)
        theirs += 1
        equal(host(array), i + 1)
        view[-1] = i + 2
        equal(float(tensor[-1]), i + 2)
    del tensor, theirs, view


def profile():
    with cuda_um.profile() as profile:
        array = cuda_um.zeros(1 << 20, name="weights")
        with array.numpy(write=True) as elements:
            elements[:] = 1
        del elements
        array.fill(2)
    assert "weights" in profile.text()
    print(profile.text())


def main():
    assert not cuda_um.is_simulated(), "this needs a GPU"
    print(cuda_um.runtime_description())
    versions = {module.__name__: module.__version__ for module in (np, torch, cupy, jax) if module}
    print(f"Python {sys.version.split()[0]}, {versions}; {REPETITIONS} repetitions")
    row("cuda_um", "a profile through CUPTI", profile)
    before = live_bytes()
    has_torch, has_cupy, has_jax = torch is not None, cupy is not None, jax is not None
    for kind in KINDS:
        row("PyTorch", f"{kind}: writes on its stream, ours after them", lambda: torch_writes(kind), has_torch)
        row("PyTorch", f"{kind}: its stream waits for our work", lambda: torch_waits(kind), has_torch)
        row("PyTorch", f"{kind}: memory returns after del", lambda: torch_frees(kind), has_torch)
        row("CuPy", f"{kind}, as type 2: writes on its stream", lambda: cupy_writes(kind, 2), has_cupy)
        row("CuPy", f"{kind}: the CUDA Array Interface", lambda: cupy_cai(kind), has_cupy)
        row("PyTorch", f"{kind}: its tensors in our pool", lambda: torch_pool(kind), has_torch)
        row("CuPy", f"{kind}: its arrays in our memory", lambda: cupy_allocator(kind), has_cupy)
        row("JAX", f"{kind}: reads after our work", lambda: jax_reads(kind), has_jax)
    row("PyTorch", "a graph with our pool", torch_graph, has_torch)
    row("PyTorch", "prefetch, advice, residency of its tensors", torch_hints, has_torch)
    row("PyTorch", "a model leaves the GPU and comes back", torch_offload, has_torch)
    row("CuPy", "prefetch and advice of its arrays", cupy_hints, has_cupy)
    row("PyTorch", "out of memory in our pool", torch_out_of_memory, has_torch)
    row("PyTorch", "a training step", torch_step, has_torch)
    row("Numba", "its arrays in our memory", numba_plugin, importlib.util.find_spec("numba") is not None)
    row("PyTorch", "control: the host reads without a wait", torch_without_a_wait, has_torch)
    row("PyTorch", "its tensors are device buffers", torch_imports, has_torch)
    row("PyTorch", "dtypes, there and back", torch_dtypes, has_torch)
    row("PyTorch", "the CUDA Array Interface", torch_cai, has_torch)
    row("PyTorch", "device type 13", torch_refuses_13, has_torch)
    row("CuPy", "unified, as type 13: writes on its stream", lambda: cupy_writes("unified", 13), has_cupy)
    row("CuPy", "its managed arrays are unified buffers", cupy_imports_managed, has_cupy)
    row("CuPy", "its arrays are device buffers", cupy_imports_device, has_cupy)
    row("JAX", "its arrays are device buffers", jax_imports, has_jax)
    row("NumPy", "unified, as type 1: the same memory", numpy_shares)
    row("all", "PyTorch, CuPy and NumPy on one array", all_at_once, has_torch and has_cupy)
    row("cuda_um", "memory after all of it", lambda: equal(live_bytes(), before))
    print(f"{rows} rows, {failures} failed")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
