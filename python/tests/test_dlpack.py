"""Imports and exports: DLPack and the CUDA Array Interface."""

import ctypes
import gc

import ml_dtypes
import numpy as np
import pytest

import cuda_um
from conftest import KINDS

HOST, CUDA, PINNED, MANAGED = 1, 2, 3, 13


def values(array):
    with array.numpy() as elements:
        return elements.copy()


class Exporter:
    """A library that passes on a capsule, and says another device."""

    def __init__(self, capsule, device=(HOST, 0)):
        self.capsule, self.device = capsule, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        return self.capsule


def six(kind="unified", dtype="int32"):
    return cuda_um.from_numpy(np.arange(1, 7, dtype=dtype).reshape(2, 3), kind=kind)


def test_the_device(kind):
    assert six(kind).__dlpack_device__() == ((CUDA, 0) if kind in ("unified", "device") else (HOST, 0))


def test_numpy_has_the_same_memory(kind):
    array = six(kind)
    view = np.from_dlpack(array, device="cpu")
    assert view.tolist() == [[1, 2, 3], [4, 5, 6]]
    if kind != "device":
        with array.numpy() as elements:
            assert np.shares_memory(view, elements)
        array.fill(7)  # complete when it returns, since NumPy has the memory
        assert view.tolist() == [[7] * 3] * 2
        view[0, 0] = 8
        assert values(array)[0, 0] == 8
    del array
    gc.collect()
    assert view.shape == (2, 3) and view[1, 2] in (6, 7)
    del view


def test_numpy_refuses_what_is_on_a_device():
    with pytest.raises((RuntimeError, BufferError)):
        np.from_dlpack(six())


def test_our_arrays_come_back_as_their_kind(kind):
    array = six(kind)
    again = cuda_um.from_dlpack(array)
    assert again.kind == ("host" if kind == "pinned" else kind)
    assert (again.shape, again.dtype) == ((2, 3), "int32")
    array.fill(9)
    assert (values(again) == 9).all()
    again.fill(8)
    assert (values(array) == 8).all()
    del array
    gc.collect()
    assert (values(again) == 8).all()


@pytest.mark.parametrize("max_version", [None, (0, 8), (1, 0), (1, 5)])
def test_both_forms_of_capsules(max_version, kind):
    capsule = six(kind).__dlpack__(max_version=max_version)
    name = "dltensor_versioned" if max_version and max_version[0] >= 1 else "dltensor"
    assert f'"{name}"' in repr(capsule)
    assert values(cuda_um.from_dlpack(Exporter(capsule))).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert f'"used_{name}"' in repr(capsule)


def test_a_capsule_itself_is_imported():
    assert values(cuda_um.from_dlpack(six().__dlpack__())).tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_a_capsule_is_consumed_once(max_version):
    capsule = six().__dlpack__(max_version=max_version)
    first = cuda_um.from_dlpack(capsule)
    for _ in range(2):
        with pytest.raises(cuda_um.DLPackError, match="consumed once"):
            cuda_um.from_dlpack(capsule)
    assert values(first)[0, 0] == 1


def test_what_is_no_capsule():
    for other in [3, "x", object(), np.zeros]:
        with pytest.raises(cuda_um.DLPackError, match="no DLPack capsule"):
            cuda_um.from_dlpack(other)


def test_a_capsule_that_is_dropped_frees_the_memory(kind):
    for consume in [False, True]:
        capsule = six(kind).__dlpack__()
        if consume:
            imported = cuda_um.from_dlpack(Exporter(capsule))
            del imported
        del capsule


def test_arrays_of_numpy_are_used_in_place():
    source = np.arange(6, dtype="int64").reshape(2, 3)
    array = cuda_um.from_dlpack(source)
    assert (array.kind, array.shape, array.dtype) == ("host", (2, 3), "int64")
    array.fill(4)
    assert (source == 4).all()
    with array.numpy(write=True) as elements:
        elements[0, 1] = 5
    assert source[0, 1] == 5
    del source, elements
    gc.collect()
    assert values(array)[0, 1] == 5


def test_a_read_only_import():
    source = np.arange(6.0)
    source.flags.writeable = False
    array = cuda_um.from_dlpack(source)
    assert array.read_only and "read-only" in repr(array)
    for write in [lambda: array.fill(1), lambda: array.copy_(np.zeros(6)), lambda: array.numpy(write=True)]:
        with pytest.raises(cuda_um.ArgumentError, match="read-only"):
            write()
    assert values(array).tolist() == source.tolist()
    # It stays read-only on its way to others.
    assert not np.from_dlpack(array).flags.writeable
    with pytest.raises(cuda_um.DLPackError, match="max_version"):
        array.__dlpack__()


def test_a_read_only_import_of_device_memory():
    array = cuda_um.from_dlpack(Exporter(six("device").__dlpack__(max_version=(1, 0)), (CUDA, 0)))
    assert not array.read_only
    array.fill(3)


def test_wrong_imports():
    source = np.arange(12, dtype="int32").reshape(3, 4)
    for other in [source.T, source[:, ::2], source[::-1]]:
        with pytest.raises(cuda_um.DLPackError, match="strides.*contiguous"):
            cuda_um.from_dlpack(other)
    for device in ["x", (1,), (1, 0, 0), (2**40, 0), (1, "x"), None]:
        with pytest.raises(cuda_um.DLPackError, match="__dlpack_device__"):
            cuda_um.from_dlpack(Exporter(None, device))
    with pytest.raises(cuda_um.ArgumentError, match="no device 7"):
        cuda_um.from_dlpack(Exporter(six().__dlpack__(), (CUDA, 7)))


def test_the_exporting_library_is_asked_for_our_stream():
    asked = []

    class Asks(Exporter):
        def __dlpack__(self, **arguments):
            asked.append(arguments)
            return six("device").__dlpack__()

    cuda_um.from_dlpack(Asks(None, (CUDA, 0)))
    assert asked[0]["max_version"][0] == 1 and asked[0]["stream"] > 0

    class Old(Exporter):
        def __dlpack__(self, stream=None):
            asked.append(stream)
            return six("device").__dlpack__()

    cuda_um.from_dlpack(Old(None, (CUDA, 0)))
    assert asked[1] == asked[0]["stream"]

    class Fails(Exporter):
        def __dlpack__(self, **_):
            raise BufferError("theirs")

    with pytest.raises(BufferError, match="theirs"):
        cuda_um.from_dlpack(Fails(None))


def test_streams_of_the_protocol():
    array = six()
    own = array.__cuda_array_interface__["stream"]
    array.fill(1)
    for stream in [None, -1, 1, 2, own]:
        assert (values(cuda_um.from_dlpack(array.__dlpack__(stream=stream))) == 1).all()
    assert array.prefetch("device", stream=own) and array.prefetch("host", stream=1) and array.prefetch("device", stream=2)
    for copy in [None, True]:
        with pytest.raises(cuda_um.ArgumentError, match="0.*legacy"):
            array.__dlpack__(stream=0, copy=copy)
    with pytest.raises(cuda_um.ArgumentError, match="stream 0x3039"):
        array.__dlpack__(stream=12345)
    with pytest.raises(cuda_um.ArgumentError, match="-2"):
        array.__dlpack__(stream=-2)
    with pytest.raises(cuda_um.ArgumentError, match="None"):
        array.__dlpack__(stream=1, dl_device=(HOST, 0))
    with pytest.raises(cuda_um.ArgumentError, match="None"):
        six("device").__dlpack__(stream=1, dl_device=(HOST, 0))


def test_devices_on_request(kind):
    allowed = {
        "unified": {(CUDA, 0), (MANAGED, 0), (HOST, 0)},
        "device": {(CUDA, 0), (HOST, 0)},
        "pinned": {(HOST, 0)},
        "host": {(HOST, 0)},
    }[kind]
    array = six(kind)
    for device in [(CUDA, 0), (MANAGED, 0), (HOST, 0), (CUDA, 1), (PINNED, 0), (4, 0)]:
        if device in allowed:
            imported = cuda_um.from_dlpack(Exporter(array.__dlpack__(dl_device=device), device))
            assert values(imported).tolist() == [[1, 2, 3], [4, 5, 6]]
            expected = {CUDA: kind, MANAGED: "unified", HOST: "host"}[device[0]]
            assert imported.kind == expected
        else:
            with pytest.raises(cuda_um.DLPackError):
                array.__dlpack__(dl_device=device)


def test_copies_on_request(kind):
    array = six(kind)
    copy = cuda_um.from_dlpack(array.__dlpack__(copy=True, max_version=(1, 0)))
    copy.fill(0)
    assert values(array)[0, 0] == 1
    if kind == "device":
        with pytest.raises(cuda_um.DLPackError, match="copy"):
            array.__dlpack__(dl_device=(HOST, 0), copy=False)
    else:
        assert values(cuda_um.from_dlpack(array.__dlpack__(dl_device=(HOST, 0), copy=False)))[0, 0] == 1


def test_dtypes_of_both_sides():
    for dtype in ["bool", "float16", "bfloat16", "float64", "complex64", "int8", "uint64"]:
        numpy_dtype = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
        array = cuda_um.from_numpy(np.ones(3, numpy_dtype))
        assert cuda_um.from_dlpack(array).dtype == dtype
        if dtype != "bfloat16":
            assert np.from_dlpack(array, device="cpu").dtype == numpy_dtype


def test_the_cuda_array_interface(kind):
    array = six(kind, "float32")
    if kind == "host":
        assert not hasattr(array, "__cuda_array_interface__")
        return
    interface = array.__cuda_array_interface__
    address, read_only = interface.pop("data")
    assert address > 0 and not read_only and interface.pop("stream") > 0
    assert interface == {"shape": (2, 3), "typestr": "<f4", "version": 3, "strides": None}
    array.fill(2)
    assert (values(array) == 2).all()


@pytest.mark.parametrize("kind", ["unified", "device", "pinned"])
def test_synchronize_frees_a_long_chain_of_imports(kind):
    array = six(kind)
    for _ in range(2000):
        array = cuda_um.from_dlpack(array)
    array.fill(3)
    del array
    cuda_um.synchronize()
    assert not any(pool["live_arrays"] for pool in cuda_um.pool_stats().values())


@pytest.mark.parametrize("kind", KINDS)
def test_many_exports(kind):
    array = six(kind)
    views = [cuda_um.from_dlpack(array) for _ in range(20)]
    array.fill(3)
    assert all((values(view) == 3).all() for view in views)
    before = cuda_um.pool_stats()
    del views
    for _ in range(200):
        np.from_dlpack(array, device="cpu")
    gc.collect()
    assert cuda_um.pool_stats() == before


def test_an_import_waits_for_other_libraries_and_completes_its_calls():
    array = cuda_um.zeros(50_000_000, "uint8")
    view = np.from_dlpack(array, device="cpu")
    # Two imports of one memory, as of one tensor of another library. Neither knows of the other.
    first, second = cuda_um.from_dlpack(array), cuda_um.from_dlpack(array)
    del array
    source = cuda_um.zeros(50_000_000, "uint8")
    for value in range(1, 6):
        first.fill(value)
        assert view[-1] == value
        assert values(second)[-1] == value
        source.fill(10 + value)
        second.copy_(source)
        assert view[-1] == 10 + value
        assert values(first)[-1] == 10 + value


class Tensor(ctypes.Structure):
    """DLPack's tensor, which its library frees never."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device", ctypes.c_int),
        ("ndim", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]  # fmt: skip


@pytest.mark.parametrize("extents", [64, 65])
def test_an_import_has_no_more_extents_than_an_array_of_numpy(extents):
    memory, shape = np.ones(1, "f4"), (ctypes.c_int64 * extents)(*[1] * extents)
    tensor = Tensor(memory.ctypes.data, HOST, 0, extents, 2, 32, 1, shape, None, 0, None, None)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule = new(ctypes.addressof(tensor), b"dltensor", None)
    if extents > 64:
        with pytest.raises(cuda_um.DLPackError, match="65 extents"):
            cuda_um.from_dlpack(capsule)
    else:
        assert values(cuda_um.from_dlpack(capsule)).shape == (1,) * extents
