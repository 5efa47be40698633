"""CuPy allocates from this package.

>>> import cupy, cuda_um.cupy
>>> pool = cupy.cuda.MemoryPool(cuda_um.cupy.allocator(name="arrays"))
>>> cupy.cuda.set_allocator(pool.malloc)
>>> x = cupy.zeros(1 << 20)  # unified memory
"""

from typing import Any, Callable, Optional

import cupy  # type: ignore[import-not-found, unused-ignore]

from . import _cuda_um
from ._errors import OutOfMemoryError

__all__ = ["allocator"]


def allocator(
    kind: str = "unified", oversubscription: bool = False, prefetch: bool = True, name: Optional[str] = None
) -> "Callable[[int], Any]":
    """A function for ``cupy.cuda.MemoryPool`` or ``cupy.cuda.set_allocator``: new arrays have this package's memory.

    ``kind`` is "unified", which the CPU and the GPU access at one address, or "device". With ``oversubscription=True``, unified memory may exceed that of
    the device. With ``prefetch``, new unified memory is on the device before a kernel uses it. ``name`` is the memory's name in profiles.

    Memory is allocated on CuPy's current stream, and freed in its order. The host does not wait, except on default streams of threads
    (``CUPY_CUDA_PER_THREAD_DEFAULT_STREAM``); but each call records events and makes a stream wait, so a ``MemoryPool`` over it is faster. Call
    its ``free_all_blocks`` if memory is out. The function has the attribute ``stats``, a method of the device's ordinal.
    """
    native = _cuda_um.Allocator(kind, oversubscription, prefetch, name)

    def allocate(nbytes: int) -> Any:
        stream = cupy.cuda.get_current_stream()
        device = cupy.cuda.runtime.getDevice()
        try:
            block = native.allocate(nbytes, device, stream.ptr, stream)
        except OutOfMemoryError as error:
            stats = native.stats(device)
            raise cupy.cuda.memory.OutOfMemoryError(nbytes, stats["live_bytes"]) from error
        memory = cupy.cuda.UnownedMemory(block.address, nbytes, block, device)
        return cupy.cuda.MemoryPointer(memory, 0)

    allocate.stats = native.stats  # type: ignore[attr-defined]
    return allocate
