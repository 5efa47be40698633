"""What the tests share: they run on the simulator, unless CUDA_UM_RUNTIME says otherwise."""

import os

# An empty variable is an unset one.
os.environ["CUDA_UM_RUNTIME"] = os.environ.get("CUDA_UM_RUNTIME") or "sim"

import gc

import numpy as np
import pytest

import cuda_um

KINDS = ["unified", "device", "pinned", "host"]

# NumPy before 2.1, as for Python 3.9, has no `from_dlpack(device="cpu")`, and knows no read-only tensors.
OF_NUMPY_2_1 = {
    "test_a_long_chain_of_imports_ends",
    "test_a_read_only_import",
    "test_an_import_waits_for_other_libraries_and_completes_its_calls",
    "test_arrays_without_elements_pass_through_dlpack",
    "test_dtypes_of_both_sides",
    "test_faulthandler_may_be_enabled_and_disabled",
    "test_many_exports",
    "test_numpy_has_the_same_memory",
}


def pytest_collection_modifyitems(items):
    if np.lib.NumpyVersion(np.__version__) < "2.1.0":
        for item in items:
            if item.originalname in OF_NUMPY_2_1:
                item.add_marker(pytest.mark.skip(reason=f"NOT RUN: NumPy {np.__version__} is older than 2.1"))
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
