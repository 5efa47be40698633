//! Element types and Python's values.

use num_complex::{Complex32, Complex64};
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use um_backend::half::{bf16, f16};
use um_backend::{DType, Element, SharedWrite, dtype::Bool};

use crate::errors::{argument, refusal, text};
use crate::outside::{self, Outside};

/// The type that a name, a type of NumPy or PyTorch, or a type of Python means. A name means what it means in NumPy: "i8" has 8 bytes.
pub(crate) fn dtype(value: &Bound<'_, PyAny>) -> PyResult<DType> {
    let name = match value.cast::<PyString>() {
        Ok(name) => text(name)?,
        // PyTorch's types are no types of NumPy.
        Err(_) if text(value)?.starts_with("torch.") => text(value)?,
        Err(_) => return of_numpy(&numpy_dtype(value)?),
    };
    match (known(&name), name.strip_prefix("torch.")) {
        // Without a call of NumPy, which does not know all of them.
        (Some(dtype), _) => Ok(dtype),
        (None, Some(theirs)) => known(theirs).ok_or_else(|| unknown(&name)),
        (None, None) => of_numpy(&numpy_dtype(value)?),
    }
}

fn numpy_dtype<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let dtype = outside::import(value.py(), c"numpy")?.attribute(c"dtype")?;
    let converted = dtype.run([value]);
    converted.map_err(|error| refusal(error, |_| Ok(unknown_text(&text(value)?))))
}

/// The type of an array of NumPy.
pub(crate) fn of_numpy(dtype: &Bound<'_, PyAny>) -> PyResult<DType> {
    if !dtype.attribute(c"isnative")?.extract::<bool>()? {
        return Err(argument(format!(
            "dtype {} has another byte order than this machine: convert it with `astype(dtype.newbyteorder(\"=\"))`",
            text(dtype)?
        )));
    }
    let has_objects: bool = dtype.attribute(c"hasobject")?.extract()?;
    if has_objects || !dtype.attribute(c"fields")?.is_none() {
        return Err(argument(format!(
            "dtype {} has fields or objects of Python, and an array has numbers: pass one field, or convert it with `astype`",
            text(dtype)?
        )));
    }
    let name = match dtype.attribute(c"isbuiltin")?.extract::<u8>()? {
        1 => dtype.attribute(c"str")?,
        _ => dtype.attribute(c"type")?.attribute(c"__name__")?,
    };
    let name = name.extract::<String>()?;
    let found = known(&name).or_else(|| name.parse().ok());
    match found {
        Some(DType::Opaque(_)) | None => Err(unknown(&text(dtype)?)),
        Some(found) => Ok(found),
    }
}

/// The type with this name in NumPy or `ml_dtypes`.
fn known(name: &str) -> Option<DType> {
    let parsed = name.parse::<DType>().ok();
    parsed.filter(|dtype| dtype.numpy_name() == Some(name))
}

fn unknown(name: &str) -> PyErr {
    argument(unknown_text(name))
}

fn unknown_text(name: &str) -> String {
    format!(
        "a dtype cannot be {name:?}: allowed are bool, float8_e4m3fn, float8_e5m2, float16, bfloat16, float32, float64, complex64, complex128, \
         int8 to int64 and uint8 to uint64, the other names and types of NumPy for them, and the types of PyTorch"
    )
}

/// The name in NumPy and `ml_dtypes`.
pub(crate) fn name(dtype: DType) -> String {
    dtype
        .numpy_name()
        .map_or_else(|| dtype.to_string(), str::to_owned)
}

/// The type of NumPy for the elements: that of `ml_dtypes` if NumPy itself has none.
pub(crate) fn to_numpy(py: Python<'_>, dtype: DType) -> PyResult<Bound<'_, PyAny>> {
    let name = name(dtype);
    let convert = outside::import(py, c"numpy")?.attribute(c"dtype")?;
    let converted = match dtype {
        DType::BF16 | DType::F8E4M3 | DType::F8E5M2 => {
            let module = outside::import(py, c"ml_dtypes").map_err(|error| match error
                .is_instance_of::<PyImportError>(py)
            {
                true => argument(format!(
                    "NumPy has no {name}: install the package ml_dtypes"
                )),
                false => error,
            })?;
            let class = match dtype {
                DType::BF16 => c"bfloat16",
                DType::F8E4M3 => c"float8_e4m3fn",
                _ => c"float8_e5m2",
            };
            convert.run([&module.attribute(class)?])?
        }
        _ => convert.run([outside::string(py, &code(dtype))?.as_any()])?,
    };
    // A program may replace the types of a module.
    let size: usize = converted.attribute(c"itemsize")?.extract()?;
    match size == dtype.size_bytes() {
        true => Ok(converted),
        false => Err(argument(format!(
            "the modules numpy and ml_dtypes must be unchanged: their {name} has {size} bytes, and not {}",
            dtype.size_bytes()
        ))),
    }
}

/// The type's code in the interfaces of arrays: `<f4`. Types that NumPy does not have are bytes: `|V2`.
pub(crate) fn code(dtype: DType) -> String {
    let (kind, bytes) = match (dtype, dtype.size_bytes()) {
        (DType::Bool, bytes) => ('b', bytes),
        (DType::F16 | DType::F32 | DType::F64, bytes) => ('f', bytes),
        (DType::C64 | DType::C128, bytes) => ('c', bytes),
        (DType::I8 | DType::I16 | DType::I32 | DType::I64, bytes) => ('i', bytes),
        (DType::U8 | DType::U16 | DType::U32 | DType::U64, bytes) => ('u', bytes),
        (_, bytes) => ('V', bytes),
    };
    let order = match (kind, bytes) {
        ('V', _) | (_, 1) => '|',
        _ if cfg!(target_endian = "big") => '>',
        _ => '<',
    };
    format!("{order}{kind}{bytes}")
}

/// A value of Python as an element of each type, and its use for a fill.
pub(crate) fn filler(dtype: DType, value: &Bound<'_, PyAny>) -> PyResult<Filler> {
    fn with<T: Element>(value: T) -> PyResult<Filler> {
        Ok(Box::new(move |target| target.typed_mut::<T>()?.fill(value)))
    }
    let refuse = |error: PyErr| {
        refusal(error, |reason| {
            Ok(format!(
                "{} cannot be {}: {reason}",
                name(dtype),
                text(value)?
            ))
        })
    };
    let float = || value.float().map_err(refuse);
    macro_rules! whole {
        ($($dtype:ident: $rust:ty),*) => {
            match dtype {
                DType::Bool => with(Bool::from(value.is_true().map_err(refuse)?)),
                DType::F16 => with(f16::from_f32(to_odd(float()?))),
                DType::BF16 => with(bf16::from_f32(to_odd(float()?))),
                DType::F32 => with(float()? as f32),
                DType::F64 => with(float()?),
                DType::C64 => with(complex(value).map(|(re, im)| Complex32::new(re as f32, im as f32)).map_err(refuse)?),
                DType::C128 => with(complex(value).map(|(re, im)| Complex64::new(re, im)).map_err(refuse)?),
                $(DType::$dtype => {
                    let number = value.index().and_then(|number| number.extract::<$rust>());
                    with(number.map_err(|refused| refusal(refused, |_| Ok(format!(
                        "{} cannot be {}: it is a whole number from {} to {}", name(dtype), text(value)?, <$rust>::MIN, <$rust>::MAX
                    ))))?)
                })*
                other => Err(argument(format!("fill takes no value for {}: write it with `numpy(write=True)`", name(other)))),
            }
        };
    }
    whole!(I8: i8, I16: i16, I32: i32, I64: i64, U8: u8, U16: u16, U32: u32, U64: u64)
}

/// Fills an array with a value of its type.
pub(crate) type Filler = Box<dyn FnOnce(&mut SharedWrite) -> um_backend::Result<()> + Send>;

/// The value as a number of 24 bits that rounds to fewer than 23 bits as the value itself does: an inexact one has an odd last bit.
fn to_odd(value: f64) -> f32 {
    let near = value as f32;
    let (bits, exact) = (near.to_bits(), f64::from(near));
    if exact == value || value.is_nan() || bits & 1 == 1 {
        return near;
    }
    match exact.abs() < value.abs() {
        true => f32::from_bits(bits + 1),
        false => f32::from_bits(bits - 1),
    }
}

fn complex(value: &Bound<'_, PyAny>) -> PyResult<(f64, f64)> {
    let class = outside::import(value.py(), c"builtins")?.attribute(c"complex")?;
    let value = class.run([value])?;
    Ok((
        value.attribute(c"real")?.float()?,
        value.attribute(c"imag")?.float()?,
    ))
}
