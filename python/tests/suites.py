"""A plugin of pytest: the tests of CuPy and of PyTorch, with this package's memory, on a GPU. Take the suites of the versions that are installed.

    git clone --depth 1 --branch v14.2.0 https://github.com/cupy/cupy && git clone --depth 1 --branch v2.11.0 https://github.com/pytorch/pytorch
    export CUDA_UM_RUNTIME=cuda PYTHONPATH=$PWD/python/tests KIND=unified    # or device; without KIND, the framework's own allocator
    python -m pytest -p suites -n 4 cupy/tests/cupy_tests/cuda_tests/test_{memory,stream}.py cupy/tests/cupy_tests/core_tests/test_dlpack.py
    python -m pytest -p suites cupy/tests/cupy_tests/core_tests/test_{ndarray,ndarray_copy_and_view,elementwise,core,raw}.py
    python -m pytest -p suites pytorch/test/test_cuda.py -k TestMemPool
"""

import importlib.util
import os

KIND = os.environ.get("KIND")

if KIND and importlib.util.find_spec("cupy"):
    import cupy

    import cuda_um.cupy

    cupy.cuda.set_allocator(cupy.cuda.MemoryPool(cuda_um.cupy.allocator(KIND)).malloc)

if KIND and importlib.util.find_spec("torch"):
    import torch

    import cuda_um.torch

    native = cuda_um.Allocator(KIND)
    plugged = torch.cuda.memory.CUDAPluggableAllocator(cuda_um._cuda_um.__file__, *native.functions())

    class MemPool(torch.cuda.MemPool):
        """A pool that has this package's memory, unless a test passes an allocator."""

        def __init__(self, allocator=None, *choices, **named):
            super().__init__(plugged.allocator() if allocator is None else allocator, *choices, **named)

    torch.cuda.MemPool = torch.cuda.memory.MemPool = MemPool
