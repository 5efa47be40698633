"""Numba allocates from this package: ``NUMBA_CUDA_MEMORY_MANAGER=cuda_um.numba``, or

>>> from numba import cuda
>>> import cuda_um.numba
>>> cuda.set_memory_manager(cuda_um.numba.MemoryManager)
"""

from ctypes import c_void_p
from typing import Any

from numba import cuda  # type: ignore[import-not-found, unused-ignore]
from numba.cuda import MemoryInfo, MemoryPointer  # type: ignore[import-not-found, unused-ignore]

from . import _cuda_um, memory_info

__all__ = ["MemoryManager"]


class MemoryManager(cuda.HostOnlyCUDAMemoryManager):  # type: ignore[misc]
    """A memory manager of Numba whose device memory is this package's unified memory.

    Set the class attributes ``kind`` ("unified" or "device"), ``oversubscription``, ``prefetch`` and ``name`` before the first array. Numba passes no
    stream, so memory is freed in the order of the legacy default stream, which waits for all streams that Numba makes. Streams of other libraries that do
    not synchronize with it (``cudaStreamNonBlocking``) must be waited for before an array that they use is dropped.
    """

    kind = "unified"
    oversubscription = False
    prefetch = True
    name = "numba"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._allocator = _cuda_um.Allocator(self.kind, self.oversubscription, self.prefetch, self.name)

    @property
    def interface_version(self) -> int:
        return 1

    def initialize(self) -> None:
        pass

    def memalloc(self, size: int) -> Any:
        block = self._allocator.allocate(size, self.context.device.id)
        # The finalizer drops the block, which frees its memory.
        return MemoryPointer(self.context, c_void_p(block.address), size, finalizer=[block].clear)

    def get_ipc_handle(self, memory: Any) -> Any:
        raise NotImplementedError("memory of cuda_um is not shared with other processes")

    def get_memory_info(self) -> Any:
        free, total = memory_info(self.context.device.id)
        return MemoryInfo(free=free, total=total)

    def stats(self) -> "dict[str, int]":
        """The memory that Numba has: `live_bytes`, `peak_bytes`, `reserved_bytes`, `live_blocks`."""
        return self._allocator.stats(self.context.device.id)


_numba_memory_manager = MemoryManager
