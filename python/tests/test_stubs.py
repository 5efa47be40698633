"""The type stubs name what the native part has, and nothing else."""

import ast
import inspect
import pathlib

import cuda_um
from cuda_um import _cuda_um

OF_EVERY_CLASS = set(dir(type("Empty", (), {"__slots__": ()}))) | {"_repr_html_"}


def defined(body):
    return {node.name: node for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def test_the_stubs_are_complete():
    stubs = pathlib.Path(cuda_um.__file__).with_name("_cuda_um.pyi")
    found = defined(ast.parse(stubs.read_text()).body)
    found.pop("SupportsDLPack")
    found.pop("_ends")
    native = {name for name in vars(_cuda_um) if not name.startswith("_")}
    assert set(found) == native
    for name, node in found.items():
        value = getattr(_cuda_um, name)
        if isinstance(node, ast.ClassDef):
            assert set(defined(node.body)) == set(vars(value)) - OF_EVERY_CLASS, name
        else:
            arguments = [argument.arg for argument in node.args.args]
            assert list(inspect.signature(value).parameters) == arguments, name


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
