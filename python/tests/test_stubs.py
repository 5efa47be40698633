"""The type stubs name what the native part has, and nothing else."""

import inspect
import os
import pathlib
import subprocess
import sys

import cuda_um
from cuda_um import _cuda_um

OF_EVERY_CLASS = set(dir(type("Empty", (), {"__slots__": ()}))) | {"_repr_html_"}


def check(*command):
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, cwd=pathlib.Path(__file__).parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stubs_are_complete(tmp_path):
    allowed = tmp_path / "allowed"
    # The list of the native part's names, which PyO3 makes.
    # The modules of frameworks, which are not installed here.
    allowed.write_text("cuda_um._cuda_um.__all__\ncuda_um.(torch|cupy|numba)")
    check("mypy.stubtest", "cuda_um", "--allowlist", str(allowed))


def test_type_checkers_understand_a_program():
    check("mypy", "--strict", "--cache-dir", os.devnull, "--python-version", "3.14", "typed.py")
    # mypy knows no 3.9.
    for version in ["3.9", "3.14"]:
        check("basedpyright", "--level", "error", "--pythonversion", version, "--pythonpath", sys.executable, "typed.py")


def test_the_package_names_what_the_native_part_has():
    assert all(hasattr(cuda_um, name) for name in cuda_um.__all__)
    native = {name for name in vars(_cuda_um) if not name.startswith("_")}
    assert native <= set(cuda_um.__all__)
    assert pathlib.Path(cuda_um.__file__).with_name("py.typed").exists()


def test_everything_is_documented():
    for name in cuda_um.__all__:
        value = getattr(cuda_um, name)
        if name == "__version__":
            continue
        assert value.__doc__, name
        for method in set(vars(value)) - OF_EVERY_CLASS if inspect.isclass(value) else ():
            if not method.startswith("_"):
                assert getattr(value, method).__doc__, f"{name}.{method}"
