"""Files of weights as arrays."""

import ctypes
import errno
import functools
import json
import math
import operator
import os
import pickle
import signal
import struct
import subprocess
import sys
import time

import numpy as np
import pytest

import cuda_um

TENSORS = {
    "small": np.arange(6, dtype="float32").reshape(2, 3),
    "empty": np.zeros((0, 4), "int64"),
    "large": np.arange(3 << 18, dtype="uint16"),
}
NAMES = {"float32": "F32", "int64": "I64", "uint16": "U16"}


def save(path, tensors, **changes):
    header, data = {}, b""
    for name, values in tensors.items():
        offsets = [len(data), len(data) + values.nbytes]
        header[name] = {"dtype": NAMES[values.dtype.name], "shape": values.shape, "data_offsets": offsets} | changes
        data += values.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


@pytest.fixture
def file(tmp_path):
    return save(tmp_path / "model.safetensors", TENSORS)


def test_all_tensors_arrive(file, kind):
    loaded = cuda_um.load_file(file, kind=kind)
    assert set(loaded) == set(TENSORS)
    for name, values in TENSORS.items():
        array = loaded[name]
        assert (array.kind, array.dtype, array.name) == (kind, values.dtype.name, name)
        np.testing.assert_array_equal(np.asarray(array), values)


def test_paths_and_names(file):
    for path in (str(file), bytes(file)):
        loaded = cuda_um.load_file(path, names=["small"])
        assert list(loaded) == ["small"]
    # Tensors that travelled together are used and freed one by one.
    loaded = cuda_um.load_file(file)
    del loaded["large"]
    loaded["small"].fill(1)
    assert np.asarray(loaded["small"]).sum() == 6


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (cuda_um.FileError, "missing.safetensors", lambda file: cuda_um.load_file(file.with_name("missing.safetensors"))),
        (IsADirectoryError, "is a folder", lambda file: cuda_um.load_file(file.parent)),
        (cuda_um.ArgumentError, "no tensor \"tall\": it has 3 tensors", lambda file: cuda_um.load_file(file, names=["tall"])),
        (cuda_um.ArgumentError, "a list", lambda file: cuda_um.load_file(file, names="small")),
        (cuda_um.ArgumentError, "kind cannot be", lambda file: cuda_um.load_file(file, kind="moon")),
        (TypeError, "str, bytes or os.PathLike", lambda file: cuda_um.load_file(3)),
    ],
)  # fmt: skip
def test_errors_name_what_is_wrong(file, error, message, call):
    with pytest.raises(error, match=message):
        call(file)


def test_a_file_with_errors(file, tmp_path):
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.raises(cuda_um.ArgumentError, match="model.safetensors.*large"):
        cuda_um.load_file(file)
    opaque = save(tmp_path / "opaque.safetensors", {"small": np.zeros(3, "int64")}, dtype="F8_E8M0", shape=[24])
    with pytest.raises(cuda_um.ArgumentError, match="F8_E8M0"):
        cuda_um.load_file(opaque)


def test_an_interrupt_stops_a_load(file):
    def handler(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handler)
    try:
        # No code of Python runs between the two calls, in which the handler would run.
        calls = map(operator.methodcaller("__call__"), [ctypes.pythonapi.PyErr_SetInterrupt, functools.partial(cuda_um.load_file, file)])
        returned = []
        with pytest.raises(KeyboardInterrupt):
            returned.extend(calls)
        assert len(returned) == 1
    finally:
        signal.signal(signal.SIGINT, before)
    assert set(cuda_um.load_file(file)) == set(TENSORS)


def test_names_are_anything_that_is_iterated(file):
    for names in ({"small"}, {"small": 1}, (name for name in ["small"]), np.array(["small"]), iter(("small", "small")), ["small"]):
        assert list(cuda_um.load_file(file, names=names)) == ["small"]
    assert cuda_um.load_file(file, names=[]) == {}
    with pytest.raises(TypeError):
        cuda_um.load_file(file, names=3)


def test_a_load_of_many_names_takes_seconds(tmp_path):
    many = {f"layers.{number:05}": np.zeros(0, "int64") for number in range(30_000)}
    path = save(tmp_path / "many.safetensors", many)
    start = time.monotonic()
    assert len(cuda_um.load_file(path, names=list(many)[1:], kind="host")) == len(many) - 1
    # Each name with each tensor took minutes.
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("size", [10, 8 << 20])
def test_no_interrupt_is_lost_in_a_load(tmp_path, kind, size):
    path = save(tmp_path / "some.safetensors", {"a": np.zeros(size, "uint16"), "b": np.zeros(3, "float32")})
    ran, caught = [], 0

    def handler(*_):
        ran.append(1)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, handler)
    start = time.monotonic()
    cuda_um.load_file(path, kind=kind)
    takes = time.monotonic() - start
    try:
        for number in range(10):
            try:
                signal.setitimer(signal.ITIMER_REAL, max(takes * number / 10, 1e-6))
                cuda_um.load_file(path, kind=kind)
                time.sleep(2 * takes + 0.05)
            except KeyboardInterrupt:
                caught += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert caught == len(ran)


def test_copies_between_tensors_of_one_file(tmp_path, kind):
    values = {"a": np.arange(6, dtype="float32"), "b": np.arange(6, 12, dtype="float32"), "c": np.zeros((2, 3), "float32")}
    loaded = cuda_um.load_file(save(tmp_path / "pair.safetensors", values), kind=kind)
    loaded["a"].copy_(loaded["b"])
    loaded["c"].copy_(loaded["a"])
    loaded["b"].copy_(loaded["b"])
    for array in loaded.values():
        assert np.asarray(array).ravel().tolist() == list(range(6, 12))
    with loaded["b"].numpy(write=True), pytest.raises(cuda_um.InUseError):
        loaded["a"].copy_(loaded["b"])
    with loaded["b"].numpy(write=True):
        loaded["a"].fill(7)  # beside it, as any other array


def test_errors_of_the_system_are_those_of_open(file, tmp_path):
    missing = file.with_name("missing\x1b[2J.safetensors")
    with pytest.raises(FileNotFoundError) as caught:
        cuda_um.load_file(missing)
    assert isinstance(caught.value, cuda_um.FileError)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, str(missing))
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (type(copied), copied.errno, str(copied)) == (cuda_um.MissingFileError, errno.ENOENT, str(caught.value))
    assert str(caught.value).isprintable()
    index = tmp_path / "a.json"
    index.write_text(json.dumps({"weight_map": {"t": "gone"}}))
    with pytest.raises(FileNotFoundError, match="a.json needs the file .gone"):
        cuda_um.load_file(index)
    with pytest.raises(IsADirectoryError) as caught:
        cuda_um.load_file(file.parent)
    assert isinstance(caught.value, cuda_um.FileError)
    assert (caught.value.errno, caught.value.filename) == (errno.EISDIR, str(file.parent))


def test_control_characters_of_a_file_reach_no_message(tmp_path):
    evil = "\x1b[2J\x07\x9b31m\u202e"
    path = save(tmp_path / "evil.safetensors", {evil: np.zeros(4, "float32")})
    array = cuda_um.load_file(path)[evil]
    assert array.name == evil
    calls = [
        lambda: cuda_um.load_file(path, names=["other"]),
        lambda: cuda_um.load_file(save(tmp_path / "type", {"a": np.zeros(1, "int64")}, dtype=evil)),
        lambda: array.prefetch(evil),
        lambda: cuda_um.zeros(evil),
    ]
    for call in calls:
        with pytest.raises(cuda_um.ArgumentError) as caught:
            call()
        assert str(caught.value).isprintable(), str(caught.value)


@pytest.mark.parametrize("shape", [[2**64 - 1, 0], [0, 2**63], [2**40, 2**40, 0], [2**62, 4, 0], [2**61, 2, 0], [1] * 65])
def test_shapes_of_files_are_those_of_arrays(tmp_path, kind, shape):
    elements = math.prod(shape)
    path = save(tmp_path / "shape.safetensors", {"a": np.zeros(elements, "float32")}, shape=shape)
    for call in (lambda: cuda_um.load_file(path, kind=kind), lambda: cuda_um.zeros(shape, kind=kind)):
        with pytest.raises(cuda_um.ArgumentError, match="shape"):
            call()


ON_EACH_GPU = """
import sys
import numpy as np
import cuda_um

for array in (cuda_um.load_file(sys.argv[1])["small"], cuda_um.zeros((2, 3))):
    assert (array.kind, array.device) == ("unified", 0)
    back = cuda_um.from_dlpack(array)
    assert (back.kind, back.shape) == ("unified", (2, 3))
    array.__dlpack__(dl_device=(13, 0))
    assert array.__cuda_array_interface__["shape"] == (2, 3)
    assert np.array_equal(np.asarray(back), np.asarray(array))
for array in (cuda_um.load_file(sys.argv[1], kind="host")["small"], cuda_um.zeros(3, kind="host")):
    assert array.device is None and "device" not in repr(array)
"""


@pytest.mark.skipif(os.environ["CUDA_UM_RUNTIME"] != "sim", reason="chooses the simulator's GPU")
@pytest.mark.parametrize("gpu", ["h200", "gh200", "gb10"])
def test_arrays_of_files_are_those_of_zeros_on_each_gpu(file, gpu):
    environment = dict(os.environ, CUDA_UM_SIM_GPU=gpu)
    subprocess.run([sys.executable, "-c", ON_EACH_GPU, file], check=True, timeout=60, env=environment)


def test_a_profile_shows_where_a_named_array_was_made(file):
    with cuda_um.profile() as profile:
        named = cuda_um.zeros(1 << 18, name="weights")
        with named.numpy(write=True) as elements:
            elements[:] = 1
        named.prefetch("device")
        loaded = cuda_um.load_file(file)["large"]
        renamed = cuda_um.zeros(1 << 18)
        renamed.name = "renamed"
        renamed.fill(1)
        with loaded.numpy() as elements:
            elements.sum()
    sites = {buffer["name"]: buffer["site"] for buffer in json.loads(profile.trace_json())["buffers"]}
    line = test_a_profile_shows_where_a_named_array_was_made.__code__.co_firstlineno
    for name, after in {"weights": 2, "large": 6, "renamed": 8}.items():
        assert sites[name] == f"test_weights.py:{line + after}"
    assert "create.rs" not in profile.text() + profile.json() + profile.html() + profile.trace_json()


def test_a_profile_of_a_very_long_file_name_is_a_trace():
    program = compile("array = cuda_um.zeros(8, name='made')", "x" * 70000, "exec")
    with cuda_um.profile() as profile:
        exec(program, {"cuda_um": cuda_um})
    (site,) = [buffer["site"] for buffer in json.loads(profile.trace_json())["buffers"] if buffer["name"] == "made"]
    assert site == "x" * 70000 + ":1"


def test_arrays_are_saved_and_loaded(tmp_path, kind):
    path = tmp_path / "saved.safetensors"
    arrays = {"a": cuda_um.array([[1.5, 2, 3]], "float32", kind=kind), "b": cuda_um.zeros((2, 0), "int8", kind=kind)}
    arrays["a"].fill(7)
    cuda_um.save_file(arrays, path, metadata={"format": "pt"})
    loaded = cuda_um.load_file(path, names=(name for name in arrays))
    assert {name: array.shape for name, array in loaded.items()} == {"a": (1, 3), "b": (2, 0)}
    assert loaded["a"][0, 2] == 7
    before = path.read_bytes()
    assert b'"__metadata__":{"format":"pt"}' in before
    with pytest.raises(cuda_um.ArgumentError, match='"c" is .*ndarray.*cuda_um.array'):
        cuda_um.save_file({"c": np.zeros(3)}, path)
    with pytest.raises(cuda_um.MissingFileError):
        cuda_um.save_file(arrays, tmp_path / "none" / "saved.safetensors")
    assert path.read_bytes() == before
