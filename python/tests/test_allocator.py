"""Allocators for frameworks. `gpu_frameworks.py` has them within PyTorch, CuPy and Numba."""

import ctypes
import gc
import json
import subprocess
import sys
import threading

import pytest

import cuda_um
from cuda_um import _cuda_um

MIB = 1 << 20


def functions(allocator):
    """The C functions, as a framework calls them."""
    library = ctypes.CDLL(_cuda_um.__file__)
    allocate, free = (getattr(library, name) for name in allocator.functions())
    allocate.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    allocate.restype = ctypes.c_void_p
    free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
    free.restype = None
    return allocate, free


@pytest.mark.parametrize("kind", ["unified", "device"])
def test_a_block_has_memory_until_it_is_dropped(kind):
    allocator = cuda_um.Allocator(kind, name="framework")
    live_at_its_end = []

    class Owner:
        def __del__(self):
            live_at_its_end.append(allocator.stats()["live_blocks"])

    block = allocator.allocate(1000, owner=Owner())
    assert block.address % 256 == 0 and block.nbytes == 1000
    stats = allocator.stats()
    assert stats["live_blocks"] == 1 and stats["live_bytes"] >= 1000 and stats["reserved_bytes"] >= stats["live_bytes"]
    if kind == "unified":
        cuda_um.synchronize()
        ctypes.memset(block.address, 7, 1000)
        assert ctypes.string_at(block.address, 1000) == b"\7" * 1000
    gc.collect()
    assert live_at_its_end == []
    del block
    gc.collect()
    assert live_at_its_end == [0]
    assert allocator.trim() > 0


def test_c_functions_allocate_and_free_without_python():
    allocator = cuda_um.Allocator()
    allocate, free = functions(allocator)
    assert allocator.functions() == allocator.functions()
    addresses = [allocate(MIB, 0, None) for _ in range(10)]
    assert all(addresses) and len(set(addresses)) == 10
    threads = [threading.Thread(target=free, args=(address, MIB, 0, None)) for address in addresses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert allocator.stats()["live_bytes"] == 0 and allocator.last_error is None


def test_c_functions_return_null_and_tell_why():
    allocator = cuda_um.Allocator()
    allocate, free = functions(allocator)
    _, total = cuda_um.memory_info()
    assert allocate(2 * total, 0, None) is None
    assert "out of memory" in allocator.last_error and str(2 * total) in allocator.last_error
    assert allocate(MIB, 1000, None) is None
    assert "1000" in allocator.last_error
    free(4096, MIB, 0, None)
    assert "0x1000" in allocator.last_error
    with pytest.raises(cuda_um.OutOfMemoryError, match="free of"):
        allocator.allocate(2 * total)
    block = cuda_um.Allocator(oversubscription=True, prefetch=False).allocate(total + MIB)
    assert block.nbytes == total + MIB


ENDS = """
import ctypes, threading
import cuda_um
from cuda_um import _cuda_um

allocators = [cuda_um.Allocator(kind, name=kind) for kind in ("unified", "device")]
library = ctypes.CDLL(_cuda_um.__file__)
class Cycle:
    pass
for allocator in allocators:
    allocate = getattr(library, allocator.functions()[0])
    allocate.argtypes, allocate.restype = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    assert allocate(1 << 20, 0, None)  # never freed
    cycle = Cycle()
    cycle.own, cycle.block = cycle, allocator.allocate(1 << 20, owner=allocator)
kept = [allocator.allocate(1 << 20) for allocator in allocators]
def work():
    while True:
        allocators[0].allocate(1000)
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
cuda_um.prefetch(cuda_um.zeros(1000))
print("complete")
"""


def test_memory_may_live_and_threads_may_allocate_at_the_end_of_the_interpreter():
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout, done.stderr) == (0, "complete\n", "")


def test_wrong_arguments_of_an_allocator():
    with pytest.raises(cuda_um.ArgumentError, match='kind cannot be "pinned"'):
        cuda_um.Allocator("pinned")
    with pytest.raises(cuda_um.ArgumentError, match="ordinal of a device"):
        cuda_um.Allocator().allocate(MIB, device=-1)


def test_functions_are_free_again_with_their_allocator():
    allocators = [cuda_um.Allocator() for _ in range(16)]
    names = {allocator.functions() for allocator in allocators}
    assert len(names) == 16
    with pytest.raises(cuda_um.ArgumentError, match="16 allocators"):
        cuda_um.Allocator().functions()
    # One that has live memory keeps its functions.
    allocate, free = functions(allocators[0])
    address, kept = allocate(MIB, 0, None), allocators[0].functions()
    allocators.clear()
    gc.collect()
    assert {cuda_um.Allocator().functions() for _ in range(20)}.isdisjoint({kept})
    free(address, MIB, 0, None)


def test_a_profile_names_the_memory_of_a_framework():
    allocator = cuda_um.Allocator(name="activations")
    with cuda_um.profile() as profile:
        block = allocator.allocate(4 * MIB)
        cuda_um.synchronize()
        ctypes.memset(block.address, 1, 4 * MIB)
        cuda_um.synchronize()
        del block
    assert "activations" in profile.text()
    assert any(buffer["name"] == "activations" for buffer in json.loads(profile.trace_json())["buffers"])
