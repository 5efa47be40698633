"""Arrays in CUDA Unified Memory: one address for the CPU and the GPU.

>>> import cuda_um
>>> array = cuda_um.zeros((2, 3), "float32")
>>> array.fill(1.5)
>>> with array.numpy(write=True) as elements:
...     elements[0, 0] = 7
>>> with array.numpy() as elements:
...     float(elements.sum())
14.5

Without a GPU everything runs on a simulator: see ``is_simulated``.
"""

import atexit

from . import _cuda_um
from ._cuda_um import (
    Allocator,
    Array,
    HostAccess,
    Profile,
    __version__,
    array,
    device_count,
    empty,
    from_dlpack,
    from_numpy,
    is_simulated,
    load_file,
    memory_info,
    pool_stats,
    profile,
    runtime_description,
    save_file,
    synchronize,
    trim,
    zeros,
)

# Now, since a child made by fork would wait for ever for an import that another thread has begun.
import numpy.ma as _  # noqa: E402, F401, I001

from ._errors import (
    ArgumentError,
    DeviceError,
    DLPackError,
    Error,
    FileError,
    FilePermissionError,
    FolderError,
    InUseError,
    MissingFileError,
    OutOfMemoryError,
)

from ._tensors import advise, offload, prefetch, residency, restore

atexit.register(_cuda_um._ends)

__all__ = [
    "Allocator",
    "ArgumentError",
    "Array",
    "DLPackError",
    "DeviceError",
    "Error",
    "FileError",
    "FilePermissionError",
    "FolderError",
    "HostAccess",
    "InUseError",
    "MissingFileError",
    "OutOfMemoryError",
    "Profile",
    "__version__",
    "advise",
    "array",
    "device_count",
    "empty",
    "from_dlpack",
    "from_numpy",
    "is_simulated",
    "load_file",
    "memory_info",
    "offload",
    "pool_stats",
    "prefetch",
    "profile",
    "residency",
    "restore",
    "runtime_description",
    "save_file",
    "synchronize",
    "trim",
    "zeros",
]
