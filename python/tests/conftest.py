"""What the tests share: they run on the simulator, unless CUDA_UM_RUNTIME says otherwise."""

import os

os.environ.setdefault("CUDA_UM_RUNTIME", "sim")

import gc

import pytest

import cuda_um

KINDS = ["unified", "device", "pinned", "host"]


def pytest_collection_modifyitems(items):
    gpu = os.environ.get("CUDA_UM_SIM_GPU")
    if gpu in ("maxwell", "no-concurrent"):
        reason = f"NOT RUN: the tests expect managed memory that the host and kernels use at the same time, and {gpu} has none"
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(autouse=True)
def no_memory_left():
    """The arrays of a test are freed at its end."""
    yield
    gc.collect()
    cuda_um.synchronize()
    live = {name: pool["live_bytes"] for name, pool in cuda_um.pool_stats().items()}
    assert not any(live.values()), live
