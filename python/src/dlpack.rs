//! DLPack in Python: `__dlpack__`, `__dlpack_device__` and `from_dlpack`.
#![allow(unsafe_code, reason = "memory passes between libraries")]

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use um_backend::{CudaBackend, CudaBuffer, PinnedBuffer, Stream, UnifiedBuffer};
use um_dlpack::dlpark::ffi::{DLManagedTensor, DLManagedTensorVersioned};
use um_dlpack::{ConsumerOrder, ExportOptions, Imported, Target};

use crate::array::{Array, count};
use crate::backend::backend;
use crate::capsule::{self, Form, Tensor};
use crate::create::{finish, named, refuse_masked};
use crate::errors::{Kind, OrRaise, argument, error, refusal, refusal_as, text};
use crate::number::Number;
use crate::outside::{Outside, Words, dict, int, shape, string};
use crate::{owner, stream};

/// The arguments of `__dlpack__`.
pub(crate) struct Request<'py> {
    pub(crate) stream: Option<Number<i64>>,
    pub(crate) max_version: Option<Bound<'py, PyAny>>,
    pub(crate) dl_device: Option<Bound<'py, PyAny>>,
    pub(crate) copy: Option<bool>,
}

/// Two numbers of an argument.
fn pair<A, B>(name: &str, value: Option<Bound<'_, PyAny>>) -> PyResult<Option<(A, B)>>
where
    Number<A>: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr>,
    Number<B>: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr>,
{
    let Some(value) = value else { return Ok(None) };
    let found = value.extract::<(Number<A>, Number<B>)>();
    let found = found.map_err(|refused| {
        refusal(refused, |_| {
            Ok(format!(
                "{name} cannot be {}: it is a tuple of two numbers of DLPack",
                text(&value)?
            ))
        })
    });
    found.map(|(first, second)| Some((first.0, second.0)))
}

const CPU: u32 = 1;
const CUDA: u32 = 2;
const MANAGED: u32 = 13;

/// DLPack's type and ordinal of an array's device.
pub(crate) fn device(array: &Array) -> (u32, usize) {
    match array.kind {
        "unified" | "device" => (CUDA, array.backend.device().ordinal() as usize),
        _ => (CPU, 0),
    }
}

/// `__dlpack__`.
pub(crate) fn export<'py>(
    array: &Array,
    py: Python<'py>,
    request: Request<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let target = target(array, pair("dl_device", request.dl_device)?)?;
    let version = pair::<u32, u32>("max_version", request.max_version)?;
    let is_versioned = version.is_some_and(|(major, _)| major >= 1);
    let needs_copy = target == Target::Host && array.kind == "device";
    if needs_copy && request.copy == Some(false) {
        let message = "device memory cannot be exported to the CPU without a copy: request `copy=None` or `copy=True`";
        return Err(error(Kind::DLPack, message));
    }
    let consumer = consumer(array, py, target, request.stream.map(|handle| handle.0))?;
    if needs_copy || request.copy == Some(true) {
        let copy = copied(array, py, target)?;
        return form(&copy, py, target, &Consumer::Waits, is_versioned, true);
    }
    form(array, py, target, &consumer, is_versioned, false)
}

fn target(array: &Array, requested: Option<(u32, i32)>) -> PyResult<Target> {
    let (own_type, own) = device(array);
    let (found_type, found) = requested.unwrap_or((own_type, own as i32));
    match found_type {
        CPU if found == 0 => Ok(Target::Host),
        CUDA | MANAGED if own_type == CUDA && found == own as i32 => Ok(if found_type == CUDA {
            Target::Cuda
        } else {
            Target::Managed
        }),
        _ => Err(error(
            Kind::DLPack,
            format!(
                "dl_device ({found_type}, {found}) is not allowed for {} memory: allowed are {}(1, 0) for the CPU",
                array.kind,
                if own_type == CUDA {
                    format!("(2, {own}) for CUDA, (13, {own}) for unified memory by its name, and ")
                } else {
                    String::new()
                }
            ),
        )),
    }
}

/// The work of the consumer.
enum Consumer {
    /// The consumer's stream is not known, or that of a thread, or it is the host: earlier work is waited for.
    Waits,
    On(Stream),
    OrdersItself,
}

/// The stream of `__dlpack__`, as the protocol of array libraries numbers streams.
fn consumer(
    array: &Array,
    py: Python<'_>,
    target: Target,
    stream: Option<i64>,
) -> PyResult<Consumer> {
    match stream {
        None => Ok(Consumer::Waits),
        Some(-1) => Ok(Consumer::OrdersItself),
        Some(_) if target == Target::Host => {
            Err(argument("stream must be None for an export to the CPU"))
        }
        Some(0) => Err(argument(
            "stream cannot be 0, which may be two streams: pass 1 for the legacy default stream, or 2 for that of the thread",
        )),
        Some(handle) => match u64::try_from(handle) {
            Ok(handle) => {
                let stream = stream::adopt(&array.backend, py, handle)?;
                Ok(stream.map_or(Consumer::Waits, Consumer::On))
            }
            Err(_) => Err(argument(format!(
                "stream cannot be {handle}: pass -1, 1, 2, or a handle of CUDA"
            ))),
        },
    }
}

/// A copy that only the consumer has.
fn copied(array: &Array, py: Python<'_>, target: Target) -> PyResult<Array> {
    let kind = if target == Target::Host {
        "host"
    } else {
        array.kind
    };
    let (buffer_kind, kind) = crate::array::kind(kind)?;
    let backend = array.backend.clone();
    let copy = array.work(py, |storage| {
        let mut copy = backend.create_erased(buffer_kind, storage.dtype(), storage.len())?;
        copy.copy_from(&*storage.read()?)?;
        Ok(copy)
    })?;
    Ok(finish(copy, array.shape.clone(), kind, backend, None))
}

fn form<'py>(
    array: &Array,
    py: Python<'py>,
    target: Target,
    consumer: &Consumer,
    is_versioned: bool,
    is_copied: bool,
) -> PyResult<Bound<'py, PyAny>> {
    match is_versioned {
        true => tensor::<DLManagedTensorVersioned>(array, py, target, consumer, is_copied),
        false => tensor::<DLManagedTensor>(array, py, target, consumer, is_copied),
    }
}

fn tensor<'py, M: Form>(
    array: &Array,
    py: Python<'py>,
    target: Target,
    consumer: &Consumer,
    is_copied: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let mut options = ExportOptions::default();
    options.target = Some(target);
    options.read_only = array.read_only;
    options.is_copied = is_copied;
    options.ordering = match consumer {
        Consumer::Waits => ConsumerOrder::Wait,
        Consumer::On(stream) => ConsumerOrder::Stream(stream),
        Consumer::OrdersItself => ConsumerOrder::Consumer,
    };
    let exported = py.detach(|| {
        array.keep_fault_handler();
        // SAFETY: while the export lives, `Array::work` and `numpy()` wait for the device before this library's uses and after them. The
        // consumer's part of the protocol is the program's, as for each import of DLPack in Python.
        unsafe { array.buffer.export::<M>(&array.shape, &options) }
    });
    capsule::wrap(py, exported.or_raise()?)
}

/// Returns the memory of an array of another library, without a copy: of PyTorch, CuPy, JAX, NumPy, or any other with `__dlpack__`.
///
/// Memory of a GPU becomes an array of the kind "device", or "unified" if it is managed; memory that its library calls pinned "pinned"; and what it
/// calls memory of the CPU "host", even if it is pinned. The other library keeps the memory until the array and the library's work on it are gone.
#[pyfunction]
#[pyo3(signature = (array, name=None))]
pub(crate) fn from_dlpack(array: &Bound<'_, PyAny>, name: Option<Words>) -> PyResult<Array> {
    let py = array.py();
    refuse_masked(array)?;
    let (backend, capsule) = match array.has(c"__dlpack__")? {
        false => (backend(py, 0)?, array.clone()),
        true => {
            let device = array.attribute(c"__dlpack_device__")?.run([])?;
            let found = device.extract::<(Number<u32>, Number<i32>)>();
            let (Number(device_type), Number(ordinal)) = found.map_err(|refused| {
                let shown = text(&device);
                refusal_as(Kind::DLPack, refused, |_| {
                    Ok(format!(
                        "`__dlpack_device__` returned {}: it must return a type and an ordinal, two numbers of 32 bits",
                        shown?
                    ))
                })
            })?;
            let on_device = matches!(device_type, CUDA | MANAGED);
            let ordinal = usize::try_from(ordinal)
                .ok()
                .filter(|_| on_device)
                .unwrap_or(0);
            let backend = backend(py, ordinal)?;
            let stream = on_device.then(|| stream::handle(backend.device().stream()));
            (backend, request(array, stream)?)
        }
    };
    let name = named(py, name.map(|name| name.0))?;
    let tensor = capsule::take(&capsule)?;
    // The exporting library ordered its work before the library's stream.
    let imported = py.detach(|| import(tensor, &backend)).or_raise()?;
    let (kind, shape, read_only) = (kind(&imported), imported.shape, imported.read_only);
    count(&shape, imported.buffer.dtype().size_bytes()).map_err(|reason| {
        error(
            Kind::DLPack,
            format!("a tensor's {reason}; reshape it in the exporting library"),
        )
    })?;
    Ok(Array {
        read_only,
        imported: true,
        ..finish(imported.buffer, shape, kind, backend, name)
    })
}

/// Calls `__dlpack__`. Libraries from before DLPack 1.0 do not know `max_version`.
fn request<'py>(array: &Bound<'py, PyAny>, stream: Option<u64>) -> PyResult<Bound<'py, PyAny>> {
    let py = array.py();
    let export = array.attribute(c"__dlpack__")?;
    let known = |py| match stream {
        Some(handle) => dict(py, [(c"stream", int(py, handle)?)]),
        None => dict(py, []),
    };
    let new = known(py)?;
    new.set_item(string(py, "max_version")?, shape(py, &[1, 1])?)?;
    match export.run_named(&new) {
        Err(refused) if refused.is_instance_of::<PyTypeError>(py) => export.run_named(&known(py)?),
        answer => answer,
    }
}

fn import(tensor: Tensor, backend: &CudaBackend) -> um_dlpack::Result<Imported> {
    // SAFETY: the tensor comes from a capsule, whose library vouches for the memory; that other code leaves it alone while this library
    // uses it is the program's part of the protocol.
    unsafe {
        match tensor {
            Tensor::Versioned(tensor) => um_dlpack::import_owned(tensor, backend, owner::of),
            Tensor::Old(tensor) => um_dlpack::import_owned(tensor, backend, owner::of),
        }
    }
}

fn kind(imported: &Imported) -> &'static str {
    // Not the kind of the view: without elements there is no memory that has one.
    let buffer = imported.buffer.bytes().as_any();
    if buffer.is::<UnifiedBuffer<u8>>() {
        "unified"
    } else if buffer.is::<PinnedBuffer<u8>>() {
        "pinned"
    } else if buffer.is::<CudaBuffer<u8>>() {
        "device"
    } else {
        "host"
    }
}
