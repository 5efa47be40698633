"""Programs that once ended the interpreter, hung, lost data, or made arrays over memory of others."""

import builtins
import gc
import os
import subprocess
import signal
import sys
import threading
import time

import numpy as np
import pytest

import cuda_um
from conftest import KINDS


def values(array):
    with array.numpy() as elements:
        return elements.copy()


def in_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def run(program, *arguments):
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, *arguments], check=True, timeout=60)


REFUSED_PROFILES = """
import threading, cuda_um
profile = cuda_um.profile()

def refused(call):
    for _ in range(20000):
        try:
            call()
        except cuda_um.ArgumentError:
            pass

threads = [threading.Thread(target=refused, args=(call,)) for call in (profile.html, profile.text, profile.json)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_threads_that_ask_a_profile_for_its_report_too_early_do_not_wait_for_each_other():
    run(REFUSED_PROFILES)


def test_a_profile_that_is_dropped_in_its_block_ends():
    profile = cuda_um.profile()
    profile.__enter__()
    del profile
    gc.collect()
    with cuda_um.profile() as profile:
        pass
    profile.__exit__(None, None, None)
    assert profile.text()


def test_an_array_of_a_block_cannot_be_resized(kind):
    array = cuda_um.zeros(64, "uint8", kind=kind)
    for write in [True, False]:
        with array.numpy(write=write) as elements:
            with pytest.raises(ValueError):
                elements.resize(1, refcheck=False)
    assert not values(array).any()


class Lies(np.ndarray):
    nbytes = property(lambda self: 4096)
    shape = property(lambda self: (1000,))
    size = property(lambda self: 1000)


def test_what_a_subclass_of_ndarray_says_of_its_memory_is_not_believed(kind):
    source = np.arange(4, dtype="u1").view(Lies)
    array = cuda_um.from_numpy(source, kind=kind)
    assert (array.shape, array.size, array.nbytes) == ((4,), 4, 4)
    array.fill(0)
    array.copy_(source)
    assert values(array).tolist() == [0, 1, 2, 3]


REPLACED_NUMPY = """
import sys, cuda_um, numpy

class Lies:
    dtype, shape, nbytes = numpy.dtype("f4"), (1000,), 4000
    flags = type("Flags", (), {"c_contiguous": True, "writeable": True})
    __array_interface__ = {"data": (4096, False)}

array = cuda_um.zeros(1000)
numpy.ndarray = Lies
numpy.asarray = numpy.empty = lambda *_, **__: Lies()
for call in [lambda: cuda_um.from_numpy([1]), lambda: array.copy_([1]), array.__array__]:
    try:
        call()
    except cuda_um.ArgumentError:
        continue
    sys.exit("not refused")

constant = bytes(4000)
numpy.empty = lambda *_, **__: numpy.frombuffer(constant, "f4")
array.fill(1)
try:
    array.__array__()
except cuda_um.ArgumentError:
    sys.exit(0 if constant == bytes(4000) else "written")
sys.exit("not refused")
"""


def test_a_replaced_class_of_numpy_is_not_believed():
    run(REPLACED_NUMPY)


def test_a_mask_is_not_dropped_silently():
    masked = np.ma.masked_array([1, 2], [True, False])
    for call in [cuda_um.array, cuda_um.from_numpy, cuda_um.zeros(2, "int64").copy_, cuda_um.from_dlpack]:
        with pytest.raises(cuda_um.ArgumentError, match="filled"):
            call(masked)


def test_a_block_belongs_to_the_thread_that_enters_it(kind):
    array, found = cuda_um.zeros(4, kind=kind), []
    block = array.numpy(write=True)

    def work():
        with block as elements:
            elements[:] = 3
            found.append(threading.get_ident())

    in_a_thread(work)
    assert found and (values(array) == 3).all()


@pytest.mark.parametrize("write", [True, False])
def test_a_block_that_is_dropped_on_another_thread_ends(kind, write):
    array, blocks = cuda_um.zeros(4, kind=kind), []

    def work():
        blocks.append(array.numpy(write=write))
        blocks[0].__enter__()

    in_a_thread(work)
    blocks.clear()
    array.fill(1)
    assert (values(array) == 1).all()


@pytest.mark.parametrize("write", [True, False])
def test_a_block_that_is_left_on_another_thread_ends(kind, write):
    array = cuda_um.zeros(4, kind=kind)

    def generator():
        with array.numpy(write=write) as elements:
            if write:
                elements[0] = 5
            yield

    started = generator()
    in_a_thread(lambda: next(started))
    started.close()
    assert values(array)[0] == (5 if write else 0)
    array.fill(1)


def test_a_block_in_a_cycle_that_another_thread_collects_ends(kind):
    array = cuda_um.zeros(4, kind=kind)

    def work():
        gc.disable()
        cycle = [array.numpy(write=True)]
        cycle[0].__enter__()
        cycle.append(cycle)

    try:
        in_a_thread(work)
    finally:
        gc.enable()
    gc.collect()
    array.fill(1)


def test_a_block_that_writes_keeps_the_array(kind):
    array = cuda_um.zeros(4, kind=kind)
    with array.numpy(write=True) as elements:
        elements[1] = 2
        for use in [lambda: array.fill(7), array.numpy(write=True).__enter__, lambda: np.asarray(array)]:
            with pytest.raises(cuda_um.InUseError):
                use()
    assert values(array).tolist() == [0, 2, 0, 0]


def test_the_array_of_a_block_is_read_only_after_it(kind):
    array = cuda_um.zeros(4, kind=kind)
    with array.numpy(write=True) as elements:
        elements[0] = 1
    with pytest.raises(ValueError):
        elements[0] = 2
    assert values(array)[0] == 1


def test_a_block_that_is_dropped_ends_as_one_that_is_left(kind):
    array = cuda_um.zeros(4, kind=kind)
    block = array.numpy(write=True)
    elements = block.__enter__()
    elements[0] = 1
    del block
    with pytest.raises(ValueError):
        elements[0] = 2
    assert values(array)[0] == 1

    def entered():
        block = array.numpy(write=True)
        block.__enter__()[0] = 3
        return block

    # Dropped while an exception is on its way.
    with pytest.raises(ZeroDivisionError):
        [entered(), 1 / 0]
    assert values(array)[0] == 3


def test_a_block_can_be_entered_again_after_its_end():
    array = cuda_um.zeros(4)
    block = array.numpy()
    with block:
        with pytest.raises(cuda_um.ArgumentError, match="twice"):
            block.__enter__()
    with block as elements:
        assert not elements.any()
    block.__exit__(None, None, None)


@pytest.mark.parametrize(
    "value",
    [2049.0000001, -2049.0000001, 2049.0, 2050.9999999, 65519.999999, 65520.0, 1e300, 5.960464477539063e-08, 2.98e-8, 2.9802322387695315e-08, -0.0, 0.1, float("inf")],
)  # fmt: skip
def test_a_fill_rounds_float16_as_numpy(value):
    array = cuda_um.zeros(1, "float16")
    array.fill(value)
    with np.errstate(over="ignore"):
        assert values(array).view("u2")[0] == np.float16(value).view("u2")
    array.fill(float("nan"))
    assert np.isnan(values(array)[0])


def test_a_copy_from_overlapping_memory():
    for chosen in [slice(2, 8), slice(0, 6)]:
        memory = np.arange(8)
        target = cuda_um.from_dlpack(memory[0:6] if chosen.start else memory[2:8])
        target.copy_(memory[chosen])
        assert values(target).tolist() == np.arange(8)[chosen].tolist()
        memory = np.arange(8)
        target = cuda_um.from_dlpack(memory[0:6] if chosen.start else memory[2:8])
        target.copy_(cuda_um.from_dlpack(memory[chosen]))
        assert values(target).tolist() == np.arange(8)[chosen].tolist()
        del target, memory


@pytest.mark.parametrize("shape", [0, (3, 0), (0, 4)])
def test_arrays_without_elements_pass_through_dlpack(kind, shape):
    array = cuda_um.zeros(shape, kind=kind)
    again = cuda_um.from_dlpack(array)
    expected = {"unified": "device", "pinned": "host"}.get(kind, kind)
    assert (again.shape, again.kind, again.size) == (array.shape, expected, 0)
    for arguments in [{"copy": True}, {"dl_device": (1, 0)}, {"max_version": (1, 0)}]:
        assert cuda_um.from_dlpack(array.__dlpack__(**arguments)).shape == array.shape
    assert np.from_dlpack(array, device="cpu").shape == array.shape
    assert hasattr(array, "__cuda_array_interface__") == (kind != "host")
    if kind != "host":
        assert array.__cuda_array_interface__["data"][0] == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: cuda_um.zeros((2**63, 0)),
        lambda: cuda_um.zeros(1, device=-1),
        lambda: cuda_um.empty(1, device=2**70),
        lambda: cuda_um.from_numpy([1.0], device=-1),
        lambda: cuda_um.memory_info(-1),
        lambda: cuda_um.synchronize(-1),
        lambda: cuda_um.profile(-1),
        lambda: cuda_um.zeros(1).__dlpack__(stream=2**70),
        lambda: cuda_um.zeros(1).__dlpack__(max_version=(-1, 0)),
        lambda: cuda_um.zeros(1).__dlpack__(dl_device=(2**40, 0)),
        lambda: cuda_um.zeros(1).prefetch(stream=-1),
    ],
)
def test_numbers_out_of_range_are_errors_of_arguments(call):
    with pytest.raises(cuda_um.ArgumentError):
        call()


def test_a_device_that_is_not_there_is_refused_for_each_kind(kind):
    array = cuda_um.zeros(1, kind=kind)
    for call in [lambda: array.prefetch(9), lambda: array.advise("accessed_by", 9)]:
        with pytest.raises(cuda_um.ArgumentError, match="there is no device 9"):
            call()


def test_the_cpu_has_one_ordinal(kind):
    with pytest.raises(cuda_um.DLPackError, match=r"\(1, 5\)"):
        cuda_um.zeros(1, kind=kind).__dlpack__(dl_device=(1, 5))


ALL_KINDS_TO_ITSELF = """
import cuda_um
array = cuda_um.zeros(4)
again = cuda_um.from_dlpack(array)
array.fill(3)
with again.numpy() as elements:
    assert (elements == 3).all(), elements
"""


@pytest.mark.skipif(os.environ["CUDA_UM_RUNTIME"] != "sim", reason="chooses the simulator's GPU")
@pytest.mark.parametrize("gpu", ["maxwell", "no-concurrent", "h200"])
def test_our_unified_arrays_come_back_on_every_gpu(gpu):
    environment = dict(os.environ, CUDA_UM_SIM_GPU=gpu)
    subprocess.run([sys.executable, "-c", ALL_KINDS_TO_ITSELF], check=True, timeout=60, env=environment)


TENSOR = """
import ctypes

class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device", ctypes.c_int),
                ("ndim", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
"""

DELETER_AT_THE_END = """
import atexit, threading, time
import numpy as np
import cuda_um

began, log = threading.Event(), []

""" + TENSOR + """
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def deleter(_):
    began.set()
    time.sleep(0.3)  # without Python's lock
    log.append("deleted")

own = cuda_um.zeros(8, kind="device")
shape = (ctypes.c_int64 * 1)(8)
address = own.__cuda_array_interface__["data"][0]
tensor = Tensor(address, 2, 0, 1, 2, 32, 1, shape, None, 0, None, ctypes.cast(deleter, ctypes.c_void_p))
array = cuda_um.from_dlpack(new(ctypes.addressof(tensor), b"dltensor", None))
array.__dlpack__()  # lent once, so another thread drops it
del array
began.wait()
cuda_um._cuda_um._ends()
assert log == ["deleted"], log
"""


def test_the_end_of_the_program_waits_for_a_deleter_that_has_begun():
    run(DELETER_AT_THE_END)


ENDS = """
import sys, threading, time, cuda_um, numpy as np
array = cuda_um.zeros(1000)

def fill():
    while True:
        array.fill(1)

def exchange():
    while True:
        imported = cuda_um.from_dlpack(np.zeros(100))
        copy = cuda_um.zeros(100, "float64", kind="device")
        copy.copy_(imported)
        np.asarray(copy)

def block():
    mine = cuda_um.zeros(10, kind="device")
    with mine.numpy(write=True):
        time.sleep(100)

profile = cuda_um.profile()
profile.__enter__()
for work in (fill, exchange, block):
    threading.Thread(target=work, daemon=True).start()
kept = [array.__dlpack__(), cuda_um.zeros(3).numpy(write=True)]
kept[1].__enter__()
time.sleep(0.1)
"""


def test_the_end_of_the_program_beside_threads_blocks_exports_and_a_profile():
    run(ENDS)


REPLACED = """
import sys, types
import numpy as np
import cuda_um

what = sys.argv[1]
array = cuda_um.zeros(1000000, "bfloat16" if what == "ml_dtypes" else "float32", kind="host")
if what == "empty":
    np.empty = lambda *shape, **options: np.zeros(1, "u1")
elif what == "small":
    np.float32 = np.int8
elif what == "large":
    np.float32 = np.float64
elif what == "ml_dtypes":
    sys.modules["ml_dtypes"] = types.ModuleType("ml_dtypes")
    sys.modules["ml_dtypes"].bfloat16 = np.uint8

def elements():
    with array.numpy(write=True) as elements:
        return elements

for call in [lambda: np.asarray(array), elements]:
    try:
        assert call().nbytes == array.nbytes
    except cuda_um.ArgumentError as refused:
        assert "NumPy" in str(refused) or "numpy" in str(refused)
"""


@pytest.mark.parametrize("what", ["empty", "small", "large", "ml_dtypes"])
def test_the_size_of_what_numpy_gives_is_checked(what):
    run(REPLACED, what)


RESIZED = """
import gc, sys
import numpy as np
import cuda_um

cuda_um.from_numpy(np.zeros(1), kind="host")
for chosen in range(60):
    array, collections = np.full(1 << 22, 7, "u1"), 0

    def resize(phase, info):
        global collections
        collections += 1
        if array.nbytes > 1 and collections > chosen:
            array.resize(1, refcheck=False)

    gc.callbacks.append(resize)
    gc.set_threshold(1)
    try:
        cuda_um.from_numpy(array, kind="host")
    except cuda_um.ArgumentError:
        pass
    finally:
        gc.callbacks.clear()
        gc.set_threshold(700)
"""


def test_an_array_that_the_garbage_collector_resizes_is_not_read_past_its_end():
    run(RESIZED)


BESIDE_AN_EXCEPTION = """
import numpy as np
import cuda_um

log = []
""" + TENSOR + """
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def deleter(_):
    log.append("%s deleted" % len(log))

memory, shape = np.zeros(8, "f4"), (ctypes.c_int64 * 1)(8)
tensor = Tensor(memory.ctypes.data, 1, 0, 1, 2, 32, 1, shape, None, 0, None, ctypes.cast(deleter, ctypes.c_void_p))
try:
    cuda_um.from_dlpack(new(ctypes.addressof(tensor), b"dltensor", None)).fill("wrong")
except cuda_um.ArgumentError:
    log.append("raised")
assert log == ["0 deleted", "raised"], log
"""


def test_a_deleter_of_python_code_runs_beside_an_exception():
    run(BESIDE_AN_EXCEPTION)


CHAIN = """
import numpy as np, cuda_um
state = np.zeros(4)
for step in range(10000):
    state = np.from_dlpack(cuda_um.from_dlpack(state))
del state
"""


def test_a_long_chain_of_imports_ends():
    run(CHAIN)


class Changing:
    """A sequence that says another length at each call."""

    def __init__(self):
        self.calls = 0

    def __len__(self):
        self.calls += 1
        return 3 if self.calls == 1 else 2**45

    def __getitem__(self, index):
        return 2


@pytest.mark.parametrize(
    "shape",
    [range(2**45), range(2**60), range(2**70), [1] * 65, (2**40, 2**40, 0), (0, 2**62), "", "12", {0: 2}, {3}, None, -1, [-1], 1.5],
    ids=repr,
)
def test_a_shape_that_no_array_can_have_is_refused(shape):
    with pytest.raises(cuda_um.ArgumentError, match="shape"):
        cuda_um.zeros(shape)


def test_shapes_of_all_sequences():
    assert cuda_um.zeros([1] * 64, kind="host").ndim == 64
    assert cuda_um.zeros(np.array([2, 3])).shape == (2, 3)
    assert cuda_um.zeros(()).shape == ()
    assert cuda_um.zeros(Changing()).shape == (2, 2, 2)


IMPORTS = """
import sys, cuda_um
assert "numpy.ma" in sys.modules
"""


def test_no_import_is_left_to_the_first_call():
    run(IMPORTS)


INTERPRETERS = """
import sys
import _xxsubinterpreters as interpreters

if sys.argv[1] == "main":
    import cuda_um
# From CPython 3.12 on, an isolated interpreter refuses the package by itself.
second = interpreters.create(isolated=False)
if sys.argv[1] == "main":
    interpreters.run_string(second, "try: import cuda_um\\nexcept ImportError: pass\\nelse: raise SystemExit(1)")
else:
    interpreters.run_string(second, "import cuda_um")
    try:
        import cuda_um
    except ImportError:
        pass
    else:
        sys.exit(1)
interpreters.destroy(second)
if sys.argv[1] == "main":
    cuda_um.zeros(3)
"""


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="another name of the module")
@pytest.mark.parametrize("first", ["main", "second"])
def test_a_second_interpreter_cannot_import_the_package(first):
    run(INTERPRETERS, first)


FORK_BESIDE_A_DELETER = """
import os, threading, time
import numpy as np
import cuda_um

began, may_end = threading.Event(), threading.Event()

""" + TENSOR + """
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def deleter(_):
    began.set()
    may_end.wait()

memory, shape = np.zeros(8, "f4"), (ctypes.c_int64 * 1)(8)
tensor = Tensor(memory.ctypes.data, 1, 0, 1, 2, 32, 1, shape, None, 0, None, ctypes.cast(deleter, ctypes.c_void_p))
arrays = [cuda_um.from_dlpack(new(ctypes.addressof(tensor), b"dltensor", None))]
thread = threading.Thread(target=arrays.clear)
thread.start()
began.wait()
child = os.fork()
if child == 0:
    start = time.monotonic()
    cuda_um._cuda_um._ends()
    os._exit(time.monotonic() - start > 5)
status = os.waitpid(child, 0)[1]
may_end.set()
thread.join()
assert status == 0, "the child waits for a thread of its parent"
"""


def test_the_end_of_a_child_does_not_wait_for_deleters_of_its_parent():
    run(FORK_BESIDE_A_DELETER)


class Interrupted:
    def __float__(self):
        raise KeyboardInterrupt

    __index__ = __len__ = __float__

    def __getitem__(self, index):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "call",
    [
        lambda: cuda_um.zeros(3).fill(Interrupted()),
        lambda: cuda_um.zeros(3, "int32").fill(Interrupted()),
        lambda: cuda_um.zeros(Interrupted()),
        lambda: cuda_um.zeros([Interrupted()]),
        lambda: cuda_um.zeros(3).prefetch(Interrupted()),
    ],
)
def test_an_interrupt_in_an_argument_is_no_refused_argument(call):
    with pytest.raises(KeyboardInterrupt):
        call()


@pytest.mark.parametrize(
    "dtype",
    ["opaque3", "|V18", "O", np.dtype([("float32", "f4")]), np.dtype(("f4", {"a": ("i4", 0)})), "f4,f4", "no such"],
    ids=repr,
)
def test_a_dtype_that_is_no_number_is_refused(dtype):
    with pytest.raises(cuda_um.ArgumentError, match="dtype"):
        cuda_um.zeros(3, dtype)
    if isinstance(dtype, np.dtype):
        with pytest.raises(cuda_um.ArgumentError, match="fields"):
            cuda_um.from_numpy(np.zeros(3, dtype))


@pytest.mark.parametrize("raised", [KeyboardInterrupt, TimeoutError])
@pytest.mark.parametrize("value", [1, [1, 2]])
def test_an_interrupt_that_comes_within_a_call_is_not_lost(raised, value):
    seen, caught = 0, 0

    def interrupt(*_):
        nonlocal seen
        seen += 1
        raise raised

    # A function of its own, because CPython 3.13.0 does not catch what a signal raises in the condition of a loop that ends a `try`.
    def work():
        end, known = time.monotonic() + 5, seen
        while seen == known and time.monotonic() < end:
            array = cuda_um.zeros((2, 3), "float32", kind="host", name="x")
            try:
                array.fill(value)
            except cuda_um.ArgumentError:
                pass

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(200):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005)
                work()
            except raised:
                caught += 1
    finally:
        signal.signal(signal.SIGALRM, before)
    assert (seen, caught) == (200, 200)


class Unspeakable:
    def __str__(self):
        raise LookupError("mine")


def test_an_error_of_the_text_of_an_argument_is_passed_on():
    for call in [lambda: cuda_um.zeros(Unspeakable()), lambda: cuda_um.zeros(1, Unspeakable()), lambda: cuda_um.zeros(1).fill(Unspeakable())]:
        with pytest.raises(LookupError, match="mine"):
            call()


STOPPED = """
import sys, threading, time
import numpy as np
import cuda_um

sys.setswitchinterval(1e-6)
array = cuda_um.zeros(10, kind="host")
calls = [lambda: np.asarray(array), lambda: cuda_um.from_numpy(np.zeros(3)), lambda: cuda_um.zeros(3, np.float32)]

class Slow:
    def __del__(self):
        for _ in range(100):
            time.sleep(0.001)

def loop(call):
    while True:
        call()

for call in calls:
    threading.Thread(target=loop, args=(call,), daemon=True).start()
sys.slow = Slow()  # freed when the interpreter ends, which lets the threads run
time.sleep(0.05)
"""


def test_the_end_of_the_interpreter_stops_threads_within_calls():
    for _ in range(5):
        run(STOPPED)


STOPPED_IN_ITS_CODE = """
import sys, threading, time
import numpy as np
import cuda_um

sys.setswitchinterval(1e-6)

def loops(*_, **__):
    while True:
        time.sleep(0.0001)

class Loops:
    def __getattr__(self, name):
        return loops()

def like(**methods):
    return type("Like", (), {f"__{name}__": method for name, method in methods.items()})()

def one(dtype="float32", kind="unified"):
    return cuda_um.zeros(1, dtype, kind=kind)

calls = [
    lambda: cuda_um.from_numpy(like(array=loops)),
    lambda: one().copy_(like(array=loops)),
    lambda: one().copy_([like(len=lambda _: 1, getitem=loops)]),
    lambda: cuda_um.from_dlpack(like(dlpack_device=loops, dlpack=loops)),
    lambda: cuda_um.from_dlpack(like(dlpack_device=lambda _: (1, 0), dlpack=loops)),
    lambda: cuda_um.from_dlpack(like(dlpack_device=lambda _: (like(index=loops), 0), dlpack=loops)),
    lambda: cuda_um.from_dlpack(Loops()),
    lambda: cuda_um.from_dlpack(like(str=loops)),
    lambda: cuda_um.zeros(1, Loops()),
    lambda: cuda_um.zeros(1, like(str=loops)),
    lambda: cuda_um.zeros(like(index=loops)),
    lambda: cuda_um.zeros([like(index=loops)]),
    lambda: cuda_um.zeros(like(len=loops)),
    lambda: cuda_um.zeros(like(len=lambda _: 1, getitem=loops)),
    lambda: cuda_um.zeros(1, device=like(index=loops)),
    lambda: one().fill(like(float=loops)),
    lambda: one("float16").fill(like(float=loops)),
    lambda: one("int8").fill(like(index=loops)),
    lambda: one("bool").fill(like(bool=loops)),
    lambda: one("complex64").fill(like(complex=loops)),
    lambda: one().fill(like(str=loops)),
    lambda: one().prefetch(like(index=loops)),
    lambda: one().prefetch(like(repr=loops)),
    lambda: one().prefetch(stream=like(index=loops)),
    lambda: one().advise("accessed_by", like(index=loops)),
    lambda: one().__dlpack__(stream=like(index=loops)),
    lambda: one().__dlpack__(max_version=(like(index=loops), 0)),
    lambda: one().__dlpack__(dl_device=(like(index=loops), 0)),
    lambda: one().__dlpack__(dl_device=like(str=loops)),
    lambda: one().__array__(Loops()),
]
for call in calls:
    threading.Thread(target=call, daemon=True).start()

class Slow:
    def __del__(self):
        for _ in range(100):
            time.sleep(0.001)

sys.slow = Slow()
time.sleep(0.2)
assert threading.active_count() == len(calls) + 1
"""


def test_the_end_of_the_interpreter_stops_threads_within_the_programs_code():
    run(STOPPED_IN_ITS_CODE)


WITHOUT_MEMORY = """
import sys
import _testcapi
import numpy as np
import cuda_um

exec(sys.argv[1])  # defines `call`
call()
outcomes = set()
for start in range(1000):
    _testcapi.set_nomemory(start, start + 1)
    try:
        call()
    except MemoryError:
        outcome = "refused"
    else:
        outcome = "done"
    finally:
        _testcapi.remove_mem_hooks()
    outcomes.add(outcome)
assert "done" in outcomes, outcomes
"""

END_WITHOUT_MEMORY = """
import _testcapi
import cuda_um

array = cuda_um.zeros(4, kind="device")
outcomes = []
for start in range(100):
    block = array.numpy(write=True)
    block.__enter__()[:] = start
    _testcapi.set_nomemory(start, start + 1)
    try:
        block.__exit__()
    except MemoryError:
        outcomes.append("refused")
    else:
        outcomes.append("done")
    finally:
        _testcapi.remove_mem_hooks()
    with array.numpy() as elements:
        assert (elements == start).all(), (start, elements)
assert set(outcomes) == {"refused", "done"}, outcomes
"""

ARRAYS = "a, d, n = cuda_um.zeros(300, name='x'), cuda_um.zeros(300, kind='device'), np.zeros(300, 'f4')\nhost, scalar = cuda_um.zeros(3, kind='host'), cuda_um.zeros(())\n"


@pytest.mark.parametrize(
    "call",
    [
        "cuda_um.zeros(300, 'float32', 0, 'pinned', 'x')",
        "cuda_um.zeros(3, '<f4')",
        "cuda_um.zeros(3, np.float64)",
        "cuda_um.from_dlpack(n)",
        "cuda_um.from_dlpack(a)",
        "a.fill(3)",
        "a.fill(2.5)",
        "a.copy_(d)",
        "a.prefetch('host')",
        "a.advise('read_mostly')",
        "a.__dlpack__()",
        "a.__dlpack_device__()",
        "a.__cuda_array_interface__",
        "(a.shape, a.dtype, a.kind, a.device, a.ndim, a.size, a.nbytes, a.itemsize, a.name, a.read_only, len(a), repr(a))",
        "(cuda_um.memory_info(), cuda_um.pool_stats(), cuda_um.runtime_description(), cuda_um.synchronize())",
        "cuda_um.profile()",
        "refused(cuda_um.zeros, 'moon')",
        "refused(cuda_um.zeros, 3, 'moon')",
        "refused(a.fill, 'moon')",
        "refused(a.copy_, cuda_um.zeros(3))",
        "refused(len, scalar, error=TypeError)",
        "refused(getattr, host, '__cuda_array_interface__', error=AttributeError)",
        "refused(cuda_um.from_dlpack, 3, error=cuda_um.DLPackError)",
    ],
)
def test_a_failed_allocation_of_python_is_a_memory_error(call):
    pytest.importorskip("_testcapi")
    refused = "def refused(call, *arguments, error=cuda_um.ArgumentError):\n    try: call(*arguments)\n    except error: pass\n"
    run(WITHOUT_MEMORY, ARRAYS + refused + f"def call(): return {call}")


LINES = """
import threading, time
import numpy as np
import cuda_um

target, source = sorted([cuda_um.zeros(4), cuda_um.zeros(4)], key=id)
threads = [threading.Thread(target=source.fill, args=(1,)), threading.Thread(target=target.copy_, args=(source,))]
with source.numpy():
    for thread in threads:
        thread.start()
        time.sleep(0.2)
    with source.numpy():  # before the fill, which waits for this thread
        np.asarray(target)  # the copy waits behind the fill, and does not have its target meanwhile
for thread in threads:
    thread.join()
assert np.asarray(source).tolist() == np.asarray(target).tolist() == [1] * 4
"""


def test_a_thread_in_a_block_waits_for_no_line_of_other_threads():
    run(LINES)


def test_the_end_of_a_block_writes_its_copy_back_also_if_it_fails():
    pytest.importorskip("_testcapi")
    run(END_WITHOUT_MEMORY)


def test_exports_that_have_ended_need_no_memory():
    array = cuda_um.zeros(4)

    def pages():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1])

    array.__dlpack__()
    before = pages()
    for _ in range(40_000):
        array.__dlpack__()
    # Each one used to keep 500 bytes.
    assert (pages() - before) * os.sysconf("SC_PAGE_SIZE") < 8 << 20


RELOADED = """
import importlib, cuda_um
first = cuda_um.ArgumentError
importlib.reload(cuda_um._errors)
try:
    cuda_um.zeros(-1)
except first:
    pass
"""


def test_the_exceptions_are_those_of_the_first_import():
    run(RELOADED)


FINALIZED = """
import builtins, os, sys
import cuda_um

class Last:
    def __del__(self, zeros=cuda_um.zeros, refused=cuda_um.ArgumentError, end=os._exit):
        try:
            zeros(3)
        except ImportError:
            pass
        except BaseException:
            end(3)
        try:
            zeros(-1)
        except refused:
            end(4)
        end(5)

builtins.last = Last()
"""


def test_a_finalizer_at_the_end_of_the_interpreter_may_call():
    ended = subprocess.run([sys.executable, "-c", FINALIZED], timeout=60)
    assert ended.returncode == 4


FAULTHANDLER = """
import faulthandler, os, subprocess, sys
import numpy as np
import cuda_um

if sys.argv[1] == "before":
    faulthandler.enable()
array = cuda_um.zeros(1_000_000)
for change in [faulthandler.enable, faulthandler.disable, faulthandler.enable]:
    array.fill(7)
    change()
    with array.numpy() as elements:
        assert (elements == 7).all()
    array.prefetch("device")
    change()
    assert (np.from_dlpack(array, device="cpu") == 7).all()
# A fault that is none of the simulator's is reported, and ends the process.
import ctypes
ctypes.string_at(0)
"""


@pytest.mark.parametrize("first", ["before", "after"])
def test_faulthandler_may_be_enabled_and_disabled(first):
    ended = subprocess.run([sys.executable, "-c", FAULTHANDLER, first], timeout=60, stderr=subprocess.PIPE)
    assert b"Segmentation fault" in ended.stderr and b"in string_at" in ended.stderr
    assert b"in numpy" not in ended.stderr and ended.stderr.count(b"in string_at") < 3
    assert ended.returncode == -signal.SIGSEGV


def test_a_file_is_written_from_a_copy_or_after_an_access(tmp_path):
    array = cuda_um.zeros(100_000)
    array.fill(7)
    np.save(tmp_path / "copy.npy", np.asarray(array))
    with array.numpy() as elements:
        elements.max()
        np.save(tmp_path / "own.npy", elements)
    assert all((np.load(tmp_path / name) == 7).all() for name in ["copy.npy", "own.npy"])


def test_the_name_of_an_array_needs_no_code_of_the_program(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(builtins, "__import__", interrupted)
    made = cuda_um.zeros(1)
    monkeypatch.undo()
    assert made.name.startswith("test_attacks.py:")
