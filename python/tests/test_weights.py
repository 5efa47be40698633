"""Files of weights as arrays."""

import ctypes
import functools
import json
import operator
import signal
import struct

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
        (OSError, "is a folder", lambda file: cuda_um.load_file(file.parent)),
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
