"""Hints for tensors of PyTorch, CuPy, Numba and this package, and of other libraries with DLPack or the CUDA Array Interface."""

import sys
from collections.abc import Mapping
from typing import Any, Iterable, Optional, Union

import numpy as np

from . import _cuda_um
from ._cuda_um import Array, from_dlpack
from ._errors import ArgumentError

# How the tensors of a library get unified memory.
HOW = {
    "torch": "make it within `with torch.cuda.use_mem_pool(cuda_um.torch.mem_pool()):`",
    "cupy": "call `cupy.cuda.set_allocator(cuda_um.cupy.allocator())` before it is made",
    "numba": "set `NUMBA_CUDA_MEMORY_MANAGER=cuda_um.numba`",
    "cuda_um": 'make it with `kind="unified"`',
}
OTHERWISE = "make it with `cuda_um.zeros`, or in memory of `cuda_um.Allocator`"
LEGACY_STREAM = 1


def _is_tensor(value: Any) -> bool:
    # Of the class: PyTorch's attributes are errors for tensors that need a gradient.
    return any(hasattr(type(value), name) for name in ("__cuda_array_interface__", "__dlpack__"))


def _named(tensors: Any) -> "Iterable[tuple[str, Any]]":
    """Each tensor with its name in errors."""
    if _is_tensor(tensors):
        return [("the tensor", tensors)]
    if hasattr(tensors, "parameters"):
        return _of_module(tensors)
    if isinstance(tensors, Mapping):
        return [(f"tensors[{name!r}]", tensor) for name, tensor in tensors.items()]
    return [(f"tensors[{index}]", tensor) for index, tensor in enumerate(tensors)]


def _of_module(module: Any) -> "Iterable[tuple[str, Any]]":
    for kind in ("parameter", "buffer"):
        if hasattr(module, f"named_{kind}s"):
            named = getattr(module, f"named_{kind}s")()
        else:
            named = enumerate(getattr(module, f"{kind}s")())
        for name, tensor in named:
            yield f"{kind} {name}", tensor
            gradient = getattr(tensor, "grad", None) if kind == "parameter" else None
            if gradient is not None:
                yield f"the gradient of {kind} {name}", gradient


def _span(shape: "tuple[int, ...]", strides: "tuple[int, ...]", itemsize: int) -> "tuple[int, int]":
    """The first byte of the elements, and the byte after the last one, from the address of the tensor on."""
    ends = [(extent - 1) * stride for extent, stride in zip(shape, strides)]
    return sum(end for end in ends if end < 0), sum(end for end in ends if end > 0) + itemsize


class _Described:
    """Tensors as the native part takes them, and the streams of their libraries."""

    def __init__(self, tensors: Any, stream: Optional[int]) -> None:
        self.tensors: "list[tuple[str, Union[Array, tuple[int, int]], str]]" = []
        self.streams: "set[int]" = set() if stream is None else {stream}
        self.has_stream = stream is not None
        for name, tensor in _named(tensors):
            memory = self._memory(name, tensor)
            if memory is not None:
                library = type(tensor).__module__.split(".")[0]
                self.tensors.append((name, memory, HOW.get(library, OTHERWISE)))

    def _memory(self, name: str, tensor: Any) -> "Union[Array, tuple[int, int], None]":
        if isinstance(tensor, Array):
            return tensor if tensor.size else None
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(tensor, torch.Tensor):
            address, shape, itemsize = tensor.data_ptr(), tuple(tensor.shape), tensor.element_size()
            strides = tuple(stride * itemsize for stride in tensor.stride())
            if tensor.is_cuda:
                self._is_on(torch.cuda.current_stream(tensor.device).cuda_stream)
        else:
            interface = getattr(tensor, "__cuda_array_interface__", None)
            if interface is None:
                if not _is_tensor(tensor):
                    raise ArgumentError(f"{name} is no tensor: {type(tensor)} has neither `__cuda_array_interface__` nor `__dlpack__`")
                # Its library's work comes before that of this library.
                array = from_dlpack(tensor)
                return array if array.size else None
            address, shape = interface["data"][0], interface["shape"]
            itemsize = np.dtype(interface["typestr"]).itemsize
            strides = interface.get("strides")
            if strides is None:
                strides = tuple(itemsize * int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
            self._is_on(interface.get("stream"))
        if 0 in shape:
            return None
        start, end = _span(shape, strides, itemsize)
        return address + start, address + end

    def _is_on(self, stream: Optional[int]) -> None:
        if not self.has_stream:
            self.streams.add(stream or LEGACY_STREAM)


def prefetch(tensors: Any, to: Union[str, int] = "device", stream: Optional[int] = None) -> bool:
    """Migrates tensors of unified memory to a place: "host", "device" (that of each tensor) or the ordinal of a device.

    ``tensors`` is a tensor of PyTorch, CuPy, Numba, this package or another library (DLPack, CUDA Array Interface), a list or a dictionary of such, or a
    module with ``parameters()`` and ``buffers()``. All are one call of CUDA where its version has that (13.0). Their contents and addresses stay.

    The migration is enqueued after the earlier work of ``stream`` and before its later work. ``stream`` is a handle of CUDA; by default PyTorch's current
    stream, that of the interface, or the legacy default stream. With another stream than that of the kernels, both overlap.

    Returns whether CUDA took the call. Memory that does not migrate is an ``ArgumentError`` with the tensor's name, and then none of them migrates.
    """
    described = _Described(tensors, stream)
    return _cuda_um._prefetch(described.tensors, to, sorted(described.streams))


def advise(tensors: Any, advice: str, place: Union[str, int, None] = None, unset: bool = False) -> bool:
    """Gives advice for tensors of unified memory: "read_mostly", "preferred_location" or "accessed_by", the last two with a place.

    ``tensors`` are those of :func:`prefetch`. CUDA applies advice to whole pages, so also to neighbours. ``unset=True`` takes the advice back. It ends
    with an ``Array``, and with a block of an ``Allocator``, which PyTorch and CuPy keep for later tensors; a tensor that shares the memory of an array leaves it
    there, so pass the array.

    "read_mostly" waits for the device, since a write ends its copies. Returns whether CUDA took each call. Memory that does not migrate is an
    ``ArgumentError``.
    """
    return _cuda_um._advise(_Described(tensors, None).tensors, advice, place, unset)


def residency(tensor: Any) -> Union[str, int, None]:
    """Where a tensor of unified memory is: "host", the ordinal of a device, or None if that is not known or not one place.

    Waits for the device. CUDA 13.4 and newer tell the place, by samples of each 2 MiB. Before, it is known only of whole arrays of
    this package that no other library has.
    """
    described = _Described(tensor if _is_tensor(tensor) else [tensor], None).tensors
    return _cuda_um._residency(described[0]) if described else None


def offload(module: Any, stream: Optional[int] = None) -> bool:
    """Migrates the parameters, gradients and buffers of a module to the host, which frees the memory of the GPU. Their addresses stay.

    A kernel that uses them nevertheless finds them, with page faults. Ordered as :func:`prefetch`. :func:`restore` brings them back.
    """
    return prefetch(module, "host", stream)


def restore(module: Any, stream: Optional[int] = None) -> bool:
    """Migrates the parameters, gradients and buffers of a module to their device, after :func:`offload`."""
    return prefetch(module, "device", stream)
