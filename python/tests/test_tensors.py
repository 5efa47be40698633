"""Hints for tensors of any library: prefetch, advice, residency, offload and restore."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import cuda_um

MIB = 1 << 20
COUNT = MIB // 4


class Theirs:
    """A tensor of another library: float32 elements in memory of its allocator, with the CUDA Array Interface."""

    def __init__(self, block, offset=0, shape=(COUNT,), strides=None, stream=None):
        self.block = block
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": "<f4",
            "data": (block.address + offset, False),
            "version": 3,
            "strides": strides,
            "stream": stream,
        }

    # Of the class, as in the libraries.
    __cuda_array_interface__ = None


class Interface:
    """The memory of an array, as another library that did not allocate it here shows it."""

    def __init__(self, array):
        self.__cuda_array_interface__ = array.__cuda_array_interface__

    __cuda_array_interface__ = None


class Module:
    def __init__(self, parameters, buffers):
        self.parameters, self.buffers = parameters.copy, buffers.copy


def hints(run):
    """The operations of a call, and the bytes that it migrated to each place."""
    with cuda_um.profile() as profile:
        assert run()
        cuda_um.synchronize()
    trace = json.loads(profile.trace_json())
    moved = {}
    for record in trace["records"]:
        to = record["to"] if record["to"] == "host" else record["to"]["device"]
        moved[to] = moved.get(to, 0) + record["bytes"]
    return trace["operations"], moved


def test_tensors_of_any_library_are_one_prefetch():
    own = cuda_um.array(np.zeros(COUNT, np.float32), name="own")
    imported = cuda_um.array(np.zeros(COUNT, np.float32))
    foreign = cuda_um.array(np.zeros(COUNT, np.float32))
    block = cuda_um.Allocator(name="framework").allocate(8 * MIB)
    part = Theirs(block, 2 * MIB, (2, COUNT))
    tensors = {"own": own, "part": part, "imported": cuda_um.from_dlpack(imported), "foreign": Interface(foreign)}
    cuda_um.prefetch(tensors)
    for place, name in [("host", "host"), ("device", 0), (0, 0)]:
        operations, moved = hints(lambda: cuda_um.prefetch(tensors, place))
        [operation] = [operation for operation in operations if operation["operation"] == "prefetch"]
        assert sum(access["bytes"] for access in operation["accesses"]) == 5 * MIB
        # The second time only nothing is left to move: another library may have moved it, so CUDA decides.
        assert moved.get(name, 0) == (0 if place == 0 else 5 * MIB), moved
    del tensors, imported, foreign


def test_the_profile_has_the_names_of_the_allocator():
    block = cuda_um.Allocator(name="activations").allocate(8 * MIB)
    with cuda_um.profile() as profile:
        assert cuda_um.prefetch([Theirs(block, 4 * MIB)], "host")
        cuda_um.synchronize()
    trace = json.loads(profile.trace_json())
    [operation] = trace["operations"]
    [access] = operation["accesses"]
    names = {buffer["id"]: buffer["name"] for buffer in trace["buffers"]}
    assert (names[access["buffer"]], access["offset"], access["bytes"]) == ("activations", 4 * MIB, MIB)


def test_a_tensor_with_strides_is_what_it_spans():
    block = cuda_um.Allocator().allocate(8 * MIB)
    backwards = Theirs(block, 4 * MIB - 4, (COUNT,), (-4,))
    every_second = Theirs(block, 6 * MIB, (2, COUNT // 4), (4, 8))
    empty = Theirs(block, 0, (0, 4))
    operations, _ = hints(lambda: cuda_um.prefetch([backwards, every_second, empty], "host"))
    [operation] = operations
    accesses = [(access["offset"], access["bytes"]) for access in operation["accesses"]]
    assert accesses == [(3 * MIB, MIB), (6 * MIB, MIB // 2)]
    assert cuda_um.prefetch([]) and cuda_um.prefetch(empty, "host") and cuda_um.residency(empty) is None


def test_a_module_goes_out_and_back_at_its_addresses():
    weight, bias = (cuda_um.array(np.full(COUNT, value, np.float32)) for value in (1, 2))
    weight_of_library = Theirs(cuda_um.Allocator().allocate(MIB))
    weight_of_library.grad = Theirs(cuda_um.Allocator().allocate(MIB))
    module = Module([weight, weight_of_library], [bias])
    for move, to in [(cuda_um.restore, None), (cuda_um.offload, "host"), (cuda_um.restore, 0)]:
        operations, moved = hints(lambda: move(module))
        assert to is None or moved == {to: 4 * MIB}
        assert len([operation for operation in operations if operation["operation"] == "prefetch"]) == 1
    assert (weight[COUNT - 1], bias[0]) == (1, 2)
    module.named_parameters = lambda: [("weight", cuda_um.zeros(4, kind="device"))]
    with pytest.raises(cuda_um.ArgumentError, match="parameter weight is in device memory"):
        cuda_um.offload(module)


@pytest.mark.parametrize("stream", [1, 2])
def test_streams_of_other_libraries(stream):
    block = cuda_um.Allocator().allocate(MIB)
    assert cuda_um.prefetch(Theirs(block, stream=stream), "host")
    assert cuda_um.prefetch([Theirs(block)], "device", stream=stream)
    with pytest.raises(cuda_um.ArgumentError, match="stream 0x1234"):
        cuda_um.prefetch(Theirs(block, stream=0x1234))


def test_memory_that_does_not_migrate_is_named_and_nothing_migrates():
    unified = cuda_um.zeros(COUNT)
    cuda_um.prefetch(unified)
    device = cuda_um.Allocator("device").allocate(MIB)
    cases = [
        (cuda_um.zeros(4, kind="device"), r"tensors\[1\] is in device memory.*kind=\"unified\""),
        (cuda_um.zeros(4, kind="host"), r"tensors\[1\] is in .*host.*kind=\"unified\""),
        (np.zeros(4), r"tensors\[1\] is in .*host.*cuda_um.zeros"),
        (Theirs(device), r"tensors\[1\] is in device memory.*cuda_um.Allocator"),
        (Interface(cuda_um.zeros(4, kind="device")), r"tensors\[1\] is in device memory"),
        (7, r"tensors\[1\] is no tensor"),
    ]
    for tensor, message in cases:
        with cuda_um.profile() as profile:
            for call in (cuda_um.prefetch, lambda tensors: cuda_um.advise(tensors, "read_mostly")):
                with pytest.raises(cuda_um.ArgumentError, match=message):
                    call([unified, tensor])
        assert json.loads(profile.trace_json())["operations"] == []
    with pytest.raises(cuda_um.ArgumentError, match="the tensor is in device memory"):
        cuda_um.residency(Theirs(device))
    with pytest.raises(cuda_um.ArgumentError, match=r"tensors\['w'\]"):
        cuda_um.prefetch({"w": Theirs(device)})
    with pytest.raises(cuda_um.ArgumentError, match="no device 9"):
        cuda_um.prefetch(unified, 9)
    with pytest.raises(cuda_um.InUseError), unified.numpy(write=True):
        cuda_um.prefetch([cuda_um.zeros(4), unified])


def test_advice_ends_with_the_memory_of_the_allocator():
    allocator = cuda_um.Allocator()
    block = allocator.allocate(4 * MIB)
    tensor, address = Theirs(block, MIB), block.address
    assert cuda_um.advise(tensor, "preferred_location", "host")
    assert cuda_um.advise([tensor, cuda_um.zeros(4)], "read_mostly")
    assert cuda_um.advise([tensor], "read_mostly", unset=True)
    del tensor, block
    # The pool takes the advice back before the block has another owner.
    with cuda_um.profile() as profile:
        again = allocator.allocate(4 * MIB)
        cuda_um.synchronize()
    assert again.address == address
    moves = [record for record in json.loads(profile.trace_json())["records"] if record["record"] == "migration"]
    assert all(move["to"] == {"device": 0} for move in moves)
    with pytest.raises(cuda_um.ArgumentError, match="advice cannot be"):
        cuda_um.advise(Theirs(again), "often")


RESIDENCY = """
import cuda_um
array, block = cuda_um.zeros(1 << 20), cuda_um.Allocator().allocate(4 << 20)
class Theirs:
    __cuda_array_interface__ = {"shape": (1 << 20,), "typestr": "<f4", "data": (block.address, False), "version": 2}
for place, found in [("host", "host"), ("device", 0)]:
    cuda_um.prefetch([array, Theirs()], place)
    print(cuda_um.residency(array) == found, cuda_um.residency(Theirs()))
"""


@pytest.mark.parametrize("cuda, known", [("13.0", [None, None]), ("13.4", ["host", 0])])
def test_where_tensors_are(cuda, known):
    environment = {**os.environ, "CUDA_UM_SIM_CUDA": cuda}
    done = subprocess.run([sys.executable, "-c", RESIDENCY], env=environment, capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"True {place}" for place in known], done.stderr
