"""Numba's arrays in memory of this package, with `NUMBA_CUDA_MEMORY_MANAGER=cuda_um.numba`."""

import gc

import numpy as np
from cuda.bindings import driver
from numba import cuda

import cuda_um


@cuda.jit
def increment(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


manager = cuda.current_context().memory_manager
assert type(manager).__module__ == "cuda_um.numba", manager
for stream in (0, cuda.stream()):
    for i in range(100):
        x = cuda.to_device(np.full(10_000, i, dtype=np.float32), stream=stream)
        increment[40, 256, stream](x)
        if i % 10 == 0:
            assert cuda_um.prefetch([x, x[100:200:2]], ("host", "device")[i // 10 % 2])
            assert cuda_um.advise(x, "preferred_location", "host") and cuda_um.residency(x) in (None, 0, "host")
        increment[40, 256, stream](x)
        y = x.copy_to_host(stream=stream)
        cuda.synchronize()
        assert (y == i + 2).all(), y
    assert manager.stats()["live_blocks"] > 0

captured = cuda.stream()
driver.cuStreamBeginCapture(captured.handle, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED)
try:
    cuda_um.prefetch(x, stream=int(captured.handle))
except cuda_um.ArgumentError as error:
    assert "before the capture" in str(error)
else:
    raise AssertionError("a captured stream was taken")
error, graph = driver.cuStreamEndCapture(captured.handle)
assert error == driver.CUresult.CUDA_SUCCESS, error
del x
gc.collect()
assert manager.stats()["live_bytes"] == 0, manager.stats()
assert manager.stats()["peak_bytes"] >= 40_000
kept = cuda.to_device(np.zeros(1000))  # lives until the interpreter ends
print("complete")
