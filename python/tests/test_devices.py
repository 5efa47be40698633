"""Devices, memory, profiles, processes."""

import json
import os
import subprocess
import sys
import threading

import pytest

import cuda_um

CPU_ONLY = pytest.mark.skipif(os.environ["CUDA_UM_RUNTIME"] != "sim", reason="asks the simulator")


@CPU_ONLY
def test_the_runtime_is_the_simulator():
    assert cuda_um.is_simulated() and cuda_um.device_count() >= 1
    assert cuda_um.runtime_description().startswith("simulator playing CUDA")


def test_memory_of_the_device_and_the_pools():
    free, total = cuda_um.memory_info()
    assert 0 < free <= total
    array = cuda_um.zeros(1 << 20, "uint8")
    pool = cuda_um.pool_stats()["unified"]
    assert pool["live_bytes"] >= 1 << 20 and pool["live_arrays"] == 1 and pool["reserved_bytes"] >= pool["live_bytes"]
    del array
    assert cuda_um.pool_stats()["unified"]["live_arrays"] == 0
    assert cuda_um.trim() > 0


@CPU_ONLY
def test_a_profile_names_arrays_and_finds_what_to_avoid():
    with cuda_um.profile() as profile:
        weights = cuda_um.zeros(1 << 20, name="weights")
        with weights.numpy(write=True) as elements:
            elements[:] = 1
        del elements
        weights.fill(2)
        with weights.numpy() as elements:
            assert elements[0] == 2
        del elements
    assert "weights" in profile.text() == str(profile) and "::" not in profile.text()
    report = json.loads(profile.json())
    assert report["buffers"][0]["name"] == "weights" and report["findings"]
    assert any(buffer["name"] == "weights" for buffer in json.loads(profile.trace_json())["buffers"])
    assert profile.html().startswith("<!doctype html>") and "weights" in profile._repr_html_()


def test_wrong_uses_of_a_profile():
    profile = cuda_um.profile()
    with pytest.raises(cuda_um.ArgumentError, match="after the block"):
        profile.text()
    with profile:
        assert repr(profile) == "cuda_um.Profile(device=0, running)"
        with pytest.raises(cuda_um.InUseError, match="one at a time"):
            cuda_um.profile().__enter__()
    assert repr(profile) == "cuda_um.Profile(device=0, done)"
    with pytest.raises(cuda_um.ArgumentError, match="once"):
        profile.__enter__()


def test_threads_share_arrays():
    arrays = [cuda_um.zeros(1000, "int64") for _ in range(4)]

    def work(value):
        for array in arrays:
            array.fill(value)
            array.prefetch("device")
            with array.numpy() as elements:
                assert len(set(elements.tolist())) == 1

    threads = [threading.Thread(target=work, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_copies_both_ways_end():
    arrays = [cuda_um.zeros(1000), cuda_um.zeros(1000)]

    def work(target, source):
        for _ in range(200):
            target.copy_(source)

    threads = [threading.Thread(target=work, args=order) for order in (arrays, arrays[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


PROGRAM = """
import os, sys, cuda_um
array = cuda_um.zeros(10)
array.fill(3)
capsule = array.__dlpack__()
block = cuda_um.Allocator().allocate(4)
class Theirs:
    __cuda_array_interface__ = {"shape": (1,), "typestr": "<f4", "data": (block.address, False), "version": 2}
child = os.fork()
if child == 0:
    for call in array.fill, lambda _: cuda_um.prefetch([array]), lambda _: cuda_um.prefetch(Theirs()):
        try:
            call(1)
            os._exit(1)
        except cuda_um.DeviceError as refused:
            assert "fork" in str(refused) and "::" not in str(refused), refused
    del capsule, array
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
with array.numpy() as elements:
    assert elements.sum() == 30
os._exit(0) if sys.argv[1:] else None
"""


@pytest.mark.parametrize("arguments", [[], ["exit"]])
def test_a_child_made_by_fork_and_the_end_of_the_process(arguments):
    subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM, *arguments], check=True, timeout=60)


IMPORT_AT_THE_END = """
import ctypes, gc, sys, cuda_um

class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device", ctypes.c_int),
                ("ndim", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

own = cuda_um.zeros(8, kind="device")
deleted = []
deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: deleted.append(1))
shape = (ctypes.c_int64 * 1)(8)
address = own.__cuda_array_interface__["data"][0]

def theirs():
    "An array of a library whose deleter is written in Python."
    tensor = Tensor(address, 2, 0, 1, 2, 32, 1, shape, None, 0, None, ctypes.cast(deleter, ctypes.c_void_p))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    array = cuda_um.from_dlpack(new(ctypes.addressof(tensor), b"dltensor", None))
    tensors.append(tensor)
    array.__dlpack__()  # lent once, so another thread drops it
    return array

tensors = []
first, last = theirs(), theirs()
del first
gc.collect()
cuda_um.synchronize()
assert deleted == [1], deleted
sys.kept = last  # dropped while the interpreter ends
"""


def test_an_import_at_the_end_of_the_program():
    subprocess.run([sys.executable, "-c", IMPORT_AT_THE_END], check=True, timeout=60)


def test_the_example_of_the_module():
    import doctest

    assert doctest.testmod(cuda_um) == (0, 5)
