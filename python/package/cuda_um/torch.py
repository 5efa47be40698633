"""PyTorch allocates from this package.

>>> import torch, cuda_um.torch
>>> pool = cuda_um.torch.mem_pool(name="activations")
>>> with torch.cuda.use_mem_pool(pool):
...     x = torch.empty(1 << 20, device="cuda")  # unified memory
"""

from typing import Any, Optional

import torch  # type: ignore[import-not-found, unused-ignore]

from . import _cuda_um

__all__ = ["MemPool", "mem_pool"]


class MemPool(torch.cuda.MemPool):
    """A pool of PyTorch whose memory is this package's: see :func:`mem_pool`."""

    def __init__(self, allocator: _cuda_um.Allocator) -> None:
        self._cuda_um = allocator
        functions = torch.cuda.memory.CUDAPluggableAllocator(_cuda_um.__file__, *allocator.functions())
        super().__init__(functions.allocator())

    def stats(self, device: int = 0) -> "dict[str, int]":
        """The memory that PyTorch has from the pool: `live_bytes`, `peak_bytes`, `reserved_bytes`, `live_blocks`."""
        return self._cuda_um.stats(device)

    @property
    def last_error(self) -> Optional[str]:
        """Why this package last refused memory, with its numbers: PyTorch's own error has those of its caches."""
        return self._cuda_um.last_error


def mem_pool(
    kind: str = "unified", oversubscription: bool = False, prefetch: bool = True, name: Optional[str] = None
) -> MemPool:
    """A pool for ``torch.cuda.use_mem_pool``: tensors that are made in its block have this package's memory.

    ``kind`` is "unified", which the CPU and the GPU access at one address, or "device". With ``oversubscription=True``, unified memory may exceed that of
    the device. With ``prefetch``, new unified memory is on the device before a kernel uses it. ``name`` is the memory's name in profiles.

    PyTorch caches memory in segments of 2 MiB and more over the pool, and frees a segment in the order of its stream.
    """
    return MemPool(_cuda_um.Allocator(kind, oversubscription, prefetch, name))
