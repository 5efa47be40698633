"""Numba on the simulator, which `cargo xtask sim-lib` builds as libcuda: its folder is SIM_LIB."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
SIM_LIB = os.environ.get("SIM_LIB")


def run(program, **environment):
    nvidia = pathlib.Path(importlib.util.find_spec("nvidia").submodule_search_locations[0])
    environment |= {
        "CUDA_HOME": str(nvidia / "cuda_nvcc"),
        "CUDA_UM_RUNTIME": "cuda",
        "CUDA_UM_SIM_CUDA": "12.9",
        "LD_LIBRARY_PATH": f"{SIM_LIB}:{nvidia / 'cuda_nvrtc/lib'}",
    }
    command = [sys.executable, "-W", "ignore", program]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


needs_numba = pytest.mark.skipif(
    not SIM_LIB or importlib.util.find_spec("numba") is None, reason="NOT RUN: needs Numba and SIM_LIB"
)


@needs_numba
def test_numbas_arrays_are_memory_of_this_package():
    assert run(HERE / "numba_program.py", NUMBA_CUDA_MEMORY_MANAGER="cuda_um.numba") == "complete\n"


@needs_numba
def test_a_paged_optimizer_takes_a_third_of_the_time_with_page_faults():
    found = json.loads(run(HERE.parent / "examples/paged_adam.py"))
    assert found["losses"][-1] < found["losses"][0]
    assert found["plain_ms"][-1] >= 3 * found["paged_ms"][-1] > 0, found
