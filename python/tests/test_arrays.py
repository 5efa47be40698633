"""Arrays: creation, host access, fills, copies, prefetches, advice."""

import json
import os
import re
import string
import subprocess
import sys
import threading

import ml_dtypes
import numpy as np
import pytest

import cuda_um

DTYPES = [
    "bool", "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip


def values(array):
    with array.numpy() as elements:
        return elements.copy()


def test_an_array_says_what_it_is(kind):
    array = cuda_um.zeros((2, 3), "int16", kind=kind)
    assert (array.shape, array.dtype, array.kind, array.ndim) == ((2, 3), "int16", kind, 2)
    assert (array.size, array.nbytes, array.itemsize, len(array)) == (6, 12, 2, 2)
    assert array.device == (None if kind == "host" else 0)
    assert not array.read_only
    device = "" if kind == "host" else ", device=0"
    assert repr(array) == f"cuda_um.Array(shape=(2, 3), dtype=int16, kind={kind}{device})"
    assert not values(array).any()


def test_shapes():
    assert cuda_um.zeros(4).shape == (4,)
    assert cuda_um.zeros(()).shape == ()
    assert cuda_um.zeros([2, 0]).size == 0
    assert values(cuda_um.zeros((2, 0))).shape == (2, 0)
    assert cuda_um.from_numpy(np.float32(7)).shape == ()
    with pytest.raises(TypeError):
        len(cuda_um.zeros(()))


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_dtype_goes_there_and_back(dtype, kind):
    numpy_dtype = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    source = np.arange(6).reshape(2, 3).astype(numpy_dtype)
    array = cuda_um.from_numpy(source, kind=kind)
    assert array.dtype == dtype == cuda_um.zeros(1, numpy_dtype).dtype
    assert values(array).dtype == numpy_dtype
    np.testing.assert_array_equal(values(array), source)
    array.fill(1)
    np.testing.assert_array_equal(values(array), np.ones((2, 3), numpy_dtype))


def test_dtypes_by_other_names():
    for name in ["<f4", "torch.float32", np.float32, np.dtype("f4")]:
        assert cuda_um.zeros(1, name).dtype == "float32"
    assert cuda_um.zeros(1, float).dtype == "float64"


def test_a_name_of_a_dtype_means_what_it_means_in_numpy():
    sizes = ["", "1", "2", "4", "8", "16", "32", "64", "128", "256"]
    names = [order + code + size for order in ["", "<", "=", "|", ">"] for code in string.ascii_letters + "?" for size in sizes]
    names = [name for name in names if "a" not in name]  # deprecated
    names += [name for name in dir(np) if isinstance(getattr(np, name), type)]
    names += ["int", "float", "complex", "str", "f4,f4", "2f4", "(2,)f4", "", "f33", "torch.f4", "torch.half", "opaque3", "("]
    found = set()
    for name in names:
        try:
            expected = np.dtype(name)
        except (TypeError, ValueError, SyntaxError):
            expected = None
        if expected is not None and expected.name in DTYPES and expected.isnative:
            found.add(expected.name)
            assert cuda_um.zeros(1, name, kind="host").dtype == expected.name, name
        elif name not in ml_dtypes.__dict__:
            with pytest.raises(cuda_um.ArgumentError, match="dtype"):
                cuda_um.zeros(1, name, kind="host")
    assert found == set(DTYPES) - {"bfloat16"}


# Functions and types of the library that Python does not have.
OF_RUST = re.compile(r"::|guard|_async|try_|create_erased|copy_from|backend|DType|Profiler")


def test_a_block_that_writes(kind):
    array = cuda_um.zeros((2, 3), kind=kind)
    with array.numpy(write=True) as elements:
        elements[1, 2] = 5
        assert elements.flags.writeable
    # Later writes would be lost, or race with the GPU.
    assert not elements.flags.writeable
    with array.numpy() as elements:
        assert elements[1, 2] == 5 and not elements.flags.writeable
        with pytest.raises(ValueError):
            elements[0, 0] = 1
    # The memory outlives the array and the block.
    del array
    assert elements[1, 2] == 5
    del elements


@pytest.mark.parametrize("write", [True, "all"])
def test_a_block_that_writes_all_brings_nothing_to_the_host(kind, write):
    array = cuda_um.zeros((2, 3), kind=kind)
    array.prefetch("device")
    cuda_um.synchronize()
    with cuda_um.profile() as profile:
        with array.numpy(write=write) as elements:
            elements[:] = np.arange(6).reshape(2, 3)
        cuda_um.synchronize()
    migrates = kind == "unified" and write is True
    assert (json.loads(profile.json())["total"]["to_host_bytes"] > 0) == migrates
    with pytest.raises(ValueError):
        elements[0, 0] = 1
    assert values(array).tolist() == [[0, 1, 2], [3, 4, 5]]
    del elements, profile


def test_a_new_array_is_a_copy_of_anything(kind):
    list_of_numbers = [[1, 2], [3, 4]]
    numbers = np.array(list_of_numbers)
    for source in (list_of_numbers, numbers, cuda_um.from_numpy(numbers, kind="device"), cuda_um.zeros(()), memoryview(b"ab")):
        array = cuda_um.array(source, kind=kind)
        assert array.kind == kind and array.name.startswith("test_arrays.py:")
        expected = np.asarray(source)
        assert array.dtype == expected.dtype.name
        np.testing.assert_array_equal(values(array), expected)
        changed = cuda_um.array(source, "float32", kind=kind)
        np.testing.assert_array_equal(values(changed), expected.astype("float32"))
        array.fill(9)
        np.testing.assert_array_equal(np.asarray(source), expected)
    assert isinstance(cuda_um.__version__, str)


def test_a_block_is_the_memory_itself_or_a_copy(kind):
    array = cuda_um.zeros(4, kind=kind)
    with array.numpy() as first, array.numpy() as second:
        assert np.shares_memory(first, second) == (kind != "device")
    assert not np.shares_memory(np.asarray(array), np.asarray(array))
    with pytest.raises(ValueError):
        np.asarray(array, copy=False)


def test_a_thread_does_not_wait_for_its_own_block():
    array = cuda_um.zeros(4)
    with array.numpy(write=True):
        for use in [lambda: array.fill(1), array.numpy().__enter__, array.__dlpack__, lambda: array.copy_(array)]:
            with pytest.raises(cuda_um.InUseError, match="block of this thread") as raised:
                use()
            assert not OF_RUST.search(str(raised.value))
    with array.numpy():
        with pytest.raises(cuda_um.InUseError):
            array.fill(1)
    array.fill(1)


def test_other_threads_wait_for_a_block_without_the_interpreters_lock():
    array = cuda_um.zeros(4)
    started, order = threading.Event(), []

    def fill():
        started.set()
        array.fill(2)
        order.append("filled")

    with array.numpy(write=True) as elements:
        thread = threading.Thread(target=fill)
        thread.start()
        started.wait()
        thread.join(0.05)
        elements[:] = 1
        order.append("block")
    thread.join()
    assert order == ["block", "filled"] and values(array).tolist() == [2] * 4
    del elements


BUSY = """
import cuda_um
array, other = cuda_um.zeros(4), cuda_um.zeros(4)
try:
    array.__dlpack__(dl_device=(1, 0))
except cuda_um.DLPackError as refused:
    assert str(refused).startswith("managed memory cannot be exported as device type 1 (CPU): on this device the host must not"), refused
else:
    raise SystemExit("not refused")
with array.numpy() as elements:
    new = cuda_um.array(elements + 2)  # the host writes its first contents
    for use in [array.__dlpack__, lambda: cuda_um.from_dlpack(other)]:
        try:
            use()
        except cuda_um.InUseError as refused:
            assert "block" in str(refused) and "::" not in str(refused), refused
        else:
            raise SystemExit("not refused")
cuda_um.from_dlpack(array)
assert new.numpy().__enter__().tolist() == [2] * 4
"""


@pytest.mark.skipif(os.environ["CUDA_UM_RUNTIME"] != "sim", reason="chooses the simulator's GPU")
def test_a_device_without_concurrent_access_is_in_use_during_a_block():
    environment = dict(os.environ, CUDA_UM_SIM_GPU="no-concurrent")
    subprocess.run([sys.executable, "-c", BUSY], check=True, timeout=60, env=environment)


class Refuses:
    def __float__(self):
        raise ValueError("mine")

    __len__ = __index__ = __float__


def test_an_error_of_the_program_is_the_cause():
    for call in [lambda: cuda_um.zeros(1).fill(Refuses()), lambda: cuda_um.zeros(Refuses()), lambda: cuda_um.zeros(1).prefetch(Refuses())]:
        with pytest.raises(cuda_um.ArgumentError) as raised:
            call()
        assert str(raised.value.__cause__) == "mine"


def test_a_block_says_what_it_is():
    array = cuda_um.zeros(4)
    block = array.numpy(write=True)
    assert repr(block) == f"cuda_um.HostAccess({array!r}, write=True, closed)"
    with block:
        assert "write=True, open" in repr(block)


def test_copies(kind):
    array = cuda_um.zeros((2, 3), "int32", kind=kind)
    array.copy_(np.arange(6, dtype="int32")[::-1])
    other = cuda_um.empty((2, 3), "int32")
    other.copy_(array)
    other.copy_(other)
    assert values(other).tolist() == [[5, 4, 3], [2, 1, 0]]
    with pytest.raises(cuda_um.ArgumentError, match="int64.*int32.*astype"):
        array.copy_(np.arange(6))
    with pytest.raises(cuda_um.ArgumentError, match="5 elements.*6"):
        array.copy_(np.arange(5, dtype="int32"))


def test_hints(kind):
    array = cuda_um.zeros(1 << 20, kind=kind)
    applied = [
        array.prefetch("host"), array.prefetch(), array.prefetch(0),
        array.advise("read_mostly"), array.advise("read_mostly", unset=True),
        array.advise("preferred_location", "device"), array.advise("preferred_location", unset=True),
        array.advise("accessed_by", "host"), array.advise("accessed_by", "host", unset=True),
    ]  # fmt: skip
    assert applied == [kind == "unified"] * 9
    for refused in [
        lambda: array.prefetch("moon"), lambda: array.advise("read_often"), lambda: array.advise("accessed_by"),
    ]:  # fmt: skip
        with pytest.raises(cuda_um.ArgumentError):
            refused()


def test_names():
    array = cuda_um.zeros(4)
    assert array.name.startswith("test_arrays.py:")
    array.name = "weights"
    assert array.name == "weights" and cuda_um.zeros(4, name="bias").name == "bias"
    # Halves of characters become escapes.
    array.name = "\ud800"
    assert array.name == cuda_um.zeros(4, name="\ud800").name == cuda_um.from_dlpack(array, name="\ud800").name == "\\ud800"
    assert cuda_um.from_numpy(np.zeros(4), name="\ud800").name == "\\ud800"
    assert cuda_um.zeros(4, name="bias", kind="host").name == "bias"
    with array.numpy(write=True):
        assert array.name == "\\ud800"


@pytest.mark.parametrize(
    "error, message, call",
    [
        (cuda_um.ArgumentError, "-1", lambda: cuda_um.zeros(-1)),
        (cuda_um.ArgumentError, "more elements", lambda: cuda_um.zeros((1 << 40, 1 << 40))),
        (cuda_um.ArgumentError, "f33.*bfloat16.*int8 to int64", lambda: cuda_um.zeros(1, "f33")),
        (cuda_um.ArgumentError, "byte order", lambda: cuda_um.zeros(1, ">f4")),
        (cuda_um.ArgumentError, "byte order", lambda: cuda_um.from_numpy(np.zeros(1, ">f4"))),
        (cuda_um.ArgumentError, "dtype", lambda: cuda_um.from_numpy(np.array([object()]))),
        (cuda_um.ArgumentError, "unified.*pinned", lambda: cuda_um.zeros(1, kind="mapped")),
        (cuda_um.ArgumentError, "no device 9", lambda: cuda_um.zeros(1, device=9)),
        (cuda_um.ArgumentError, "int8.*300.*-128 to 127", lambda: cuda_um.zeros(1, "int8").fill(300)),
        (cuda_um.ArgumentError, "bool cannot be", lambda: cuda_um.zeros(1, "bool").fill(np.zeros(2))),
        (cuda_um.ArgumentError, "max_version cannot be 3", lambda: cuda_um.zeros(1).__dlpack__(max_version=3)),
        (cuda_um.ArgumentError, "dl_device cannot be .2, 0, 0", lambda: cuda_um.zeros(1).__dlpack__(dl_device=(2, 0, 0))),
        (cuda_um.ArgumentError, "float32", lambda: cuda_um.zeros(1).fill("x")),
        (cuda_um.ArgumentError, "stream 0x3039", lambda: cuda_um.zeros(1).prefetch(stream=12345)),
        (cuda_um.ArgumentError, "float64.*astype", lambda: cuda_um.zeros(1).copy_(cuda_um.zeros(1, "float64"))),
        (cuda_um.ArgumentError, "3 elements.*1", lambda: cuda_um.zeros(1).copy_(cuda_um.zeros(3))),
        (cuda_um.OutOfMemoryError, "bytes requested", lambda: cuda_um.zeros(1 << 45)),
        (cuda_um.OutOfMemoryError, "memory: host memory: 140737488355328 bytes requested", lambda: cuda_um.zeros(1 << 45, kind="host")),
        (cuda_um.ArgumentError, "kind cannot be", lambda: cuda_um.zeros(1, kind="\ud800")),
        (cuda_um.ArgumentError, "kind cannot be", lambda: cuda_um.from_numpy(np.zeros(1), kind="\ud800")),
        (cuda_um.ArgumentError, 'write cannot be .some.: it is True, False or "all"', lambda: cuda_um.zeros(1).numpy(write="some")),
        (cuda_um.ArgumentError, "advice cannot be", lambda: cuda_um.zeros(1).advise("\ud800")),
    ],
)
def test_errors_name_the_value(error, message, call):
    with pytest.raises(error, match=f"(?s){message}") as raised:
        call()
    assert isinstance(raised.value, cuda_um.Error)
    assert "\n" not in str(raised.value) and not OF_RUST.search(str(raised.value))


def test_exceptions_are_also_those_of_python():
    assert issubclass(cuda_um.OutOfMemoryError, MemoryError)
    assert issubclass(cuda_um.ArgumentError, ValueError)
    assert issubclass(cuda_um.DLPackError, BufferError)
    assert issubclass(cuda_um.DeviceError, RuntimeError)


SETTING = """
import os, cuda_um
try:
    cuda_um.device_count()
except cuda_um.ArgumentError as refused:
    starts = [(f"{name}={value}: expected ", f"{name} cannot be {value}: ") for name, value in os.environ.items()]
    assert any(str(refused).startswith(start) for start in starts), refused
else:
    raise SystemExit("not refused")
"""


@pytest.mark.parametrize(
    "setting",
    [{"CUDA_UM_SIM_GPU": "moon"}, {"CUDA_UM_SIM_CUDA": "99"}, {"CUDA_UM_SIM_DEVICES": "0"}, {"CUDA_UM_RUNTIME": "moon"}],
    ids=str,
)
def test_a_bad_setting_is_an_error_of_an_argument(setting):
    environment = {**os.environ, "CUDA_UM_RUNTIME": "sim", **setting}
    subprocess.run([sys.executable, "-c", SETTING], check=True, timeout=60, env=environment)


NO_RUNTIME = """
import cuda_um
assert cuda_um.is_simulated() and "/no/such/file" in cuda_um.runtime_description(), cuda_um.runtime_description()
"""


def test_the_description_says_why_a_runtime_is_not_used():
    environment = dict(os.environ, CUDA_UM_CUDART="/no/such/file", CUDA_UM_RUNTIME="auto")
    subprocess.run([sys.executable, "-c", NO_RUNTIME], check=True, timeout=60, env=environment)


def test_single_elements_and_print(kind):
    array = cuda_um.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], "int32", kind=kind)
    assert (array[0, 0], array[2, -1], array[-3, 1]) == (1, 9, 2)
    for wrong, message in [(0, "one number for each extent"), ((0, slice(2)), "slices are those"), ("a", "one number")]:
        with pytest.raises(TypeError, match=message):
            array[wrong]
    for wrong in [(3, 0), (0, -4), (0, 1 << 70)]:
        with pytest.raises(IndexError, match="the extent is 3"):
            array[wrong]
    assert str(array).endswith("): [1 2 3 4 5 6 ...]") and str(array).startswith(repr(array))
    assert str(cuda_um.zeros(0, kind=kind)).endswith("): []")
    assert list(cuda_um.array([1.5, 2.5], kind=kind)) == [1.5, 2.5]


def test_numpy_without_a_block_says_what_to_write():
    access = cuda_um.zeros(3).numpy()
    with pytest.raises(TypeError, match="with array.numpy.. as elements"):
        access[0]
    with pytest.raises(TypeError, match="no array: .*numpy.asarray.array."):
        np.sum(access)
