//! Work on arrays.

use std::ops::Range;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use um_backend::{
    Advice, CudaBackend, DType, ErasedBuffer, HintOutcome, HostBuffer, Location, SharedBuffer,
    memory::BufferMemory,
};

use crate::array::Array;
use crate::errors::{argument, refusal, text, without_lock};
use crate::outside::Outside;
use crate::{create, dtype, outside, stream};

/// A place of memory, as Python writes it: "host", "device", or the ordinal of a device.
pub(crate) enum Place {
    Host,
    Own,
    Device(u32),
}

impl<'py> FromPyObject<'_, 'py> for Place {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let word = value.cast::<PyString>().ok();
        let word = word.map(|word| outside::words(&word)).transpose()?;
        let ordinal = value.index().and_then(|ordinal| ordinal.extract::<u32>());
        match (word.as_deref(), ordinal) {
            (Some("host"), _) => Ok(Self::Host),
            (Some("device"), _) => Ok(Self::Own),
            (None, Ok(ordinal)) => Ok(Self::Device(ordinal)),
            (_, other) => {
                let error = other
                    .err()
                    .unwrap_or_else(|| PyTypeError::new_err("a string"));
                Err(refusal(error, |_| {
                    let value = text(value.shown()?.as_any())?;
                    Ok(format!(
                        "a place cannot be {value}: it is \"host\", \"device\" or the ordinal of a device"
                    ))
                }))
            }
        }
    }
}

impl Place {
    /// Refuses devices that are not there, also for memory that no hint concerns.
    pub(crate) fn location(&self, py: Python<'_>, backend: &CudaBackend) -> PyResult<Location> {
        let device = backend.device();
        match self {
            Self::Host => Ok(Location::Host),
            Self::Own => Ok(Location::Device(device.ordinal())),
            Self::Device(ordinal) => match without_lock(py, || device.runtime().device_count())? {
                count if (*ordinal as usize) < count => Ok(Location::Device(*ordinal)),
                count => Err(argument(format!(
                    "there is no device {ordinal}: the runtime has {count}, numbered from 0"
                ))),
            },
        }
    }
}

pub(crate) fn fill(array: &Array, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    array.check_writable("fill")?;
    let filler = dtype::filler(array.dtype_of(), value)?;
    array.work(py, |storage| filler(&mut storage.write()?))
}

pub(crate) fn copy(array: &Array, py: Python<'_>, source: &Bound<'_, PyAny>) -> PyResult<()> {
    array.check_writable("copy_")?;
    if let Ok(source) = source.cast::<Array>() {
        let own = source.get();
        check(array, own.dtype_of(), own.storage().len())?;
        return copy_array(array, py, own);
    }
    let source = create::Elements::of_numpy(source)?;
    check(array, source.dtype, source.len())?;
    array.work(py, |storage| {
        let mut target = storage.write()?;
        match overlap(span(&target), source.span()) {
            true => target
                .bytes_mut()
                .copy_from_host(HostBuffer::from_slice(source.bytes())?.as_slice()),
            false => target.bytes_mut().copy_from_host(source.bytes()),
        }
    })
}

/// Checks that elements of another array fit.
fn check(array: &Array, dtype: DType, len: usize) -> PyResult<()> {
    let (own, found) = (dtype::name(array.dtype_of()), dtype::name(dtype));
    if dtype != array.dtype_of() {
        return Err(argument(format!(
            "copy_: the source has dtype {found}, and the array has {own}: convert it with `astype(\"{own}\")`"
        )));
    }
    match array.storage().len() {
        own if own == len => Ok(()),
        own => Err(argument(format!(
            "copy_: the source has {len} elements, and the array has {own}: they must be equal"
        ))),
    }
}

/// The addresses of a buffer's memory.
pub(crate) fn span(buffer: &ErasedBuffer) -> Range<usize> {
    let start = match buffer.bytes().memory() {
        BufferMemory::Host(bytes) => bytes.as_ptr().addr(),
        BufferMemory::Cuda(view) => view.as_ptr().expose_provenance(),
        _ => return 0..0,
    };
    start..start + buffer.size_bytes()
}

/// Whether two arrays have memory in common, as two imports of one array of another library may: a copy needs other memory.
fn overlap(target: Range<usize>, source: Range<usize>) -> bool {
    target.start < source.end && source.start < target.end
}

fn copy_array(array: &Array, py: Python<'_>, source: &Array) -> PyResult<()> {
    if source.storage().shares_storage(array.storage()) {
        // Nothing to copy; a block of the array is in the way as for every write.
        return array.work(py, |storage| storage.write().map(drop));
    }
    source.work(py, |from| {
        array.alone(|to| {
            let ([source], [mut target]) = SharedBuffer::lock([from], [to])?;
            match overlap(span(&target), span(&source)) {
                true => target.copy_from(&source.try_clone()?),
                false => target.copy_from(&source),
            }
        })
    })
}

pub(crate) fn prefetch(
    array: &Array,
    py: Python<'_>,
    to: &Place,
    handle: Option<u64>,
) -> PyResult<bool> {
    let location = to.location(py, &array.backend)?;
    let theirs = handle.map(|handle| stream::adopt(&array.backend, py, handle));
    let theirs = theirs.transpose()?;
    let outcome = array.work(py, |storage| {
        let own = array.backend.device().stream();
        stream::between(&array.backend, own, theirs.as_slice(), |own| {
            let part = storage.read()?;
            let all = 0..part.size_bytes();
            part.bytes().prefetch_range_on(all, location, own)
        })
    })?;
    Ok(outcome.is_applied())
}

pub(crate) fn advise(
    array: &Array,
    py: Python<'_>,
    advice: &str,
    place: Option<Place>,
    unset: bool,
) -> PyResult<bool> {
    let advice = self::advice(py, &array.backend, advice, place, unset)?;
    let outcome: HintOutcome = array.work(py, |storage| storage.read()?.bytes().advise(advice))?;
    Ok(outcome.is_applied())
}

/// The advice that a word means.
pub(crate) fn advice(
    py: Python<'_>,
    backend: &CudaBackend,
    advice: &str,
    place: Option<Place>,
    unset: bool,
) -> PyResult<Advice> {
    let location = |place: Option<Place>| {
        let place = place.ok_or_else(|| {
            argument(format!(
                "the advice {advice:?} needs a place: \"host\", \"device\" or an ordinal"
            ))
        });
        place.and_then(|place| place.location(py, backend))
    };
    Ok(match (advice, unset) {
        ("read_mostly", false) => Advice::SetReadMostly,
        ("read_mostly", true) => Advice::UnsetReadMostly,
        ("preferred_location", false) => Advice::SetPreferredLocation(location(place)?),
        ("preferred_location", true) => Advice::UnsetPreferredLocation,
        ("accessed_by", false) => Advice::SetAccessedBy(location(place)?),
        ("accessed_by", true) => Advice::UnsetAccessedBy(location(place)?),
        _ => {
            return Err(argument(format!(
                "advice cannot be {advice:?}: it is \"read_mostly\", \"preferred_location\" or \"accessed_by\""
            )));
        }
    })
}
