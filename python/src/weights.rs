//! Tensors of files as arrays.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use cuda_um_sys::locks::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use um_backend::DType;
use um_dlpack::DlpackBuffer;
use um_weights::{LoadOptions, Tensor, TensorInfo, Weights};

use crate::array::{Array, kind};
use crate::backend::backend;
use crate::errors::{Kind, argument, error, of_cuda};
use crate::number::Number;
use crate::outside::{self, Outside, Words};

/// Returns the tensors of a safetensors or GGUF file, or of an index of safetensors files, as a dict of new arrays by name.
///
/// `names` is a sequence of the tensors to load; without it, all are. Several threads read the file straight into the memory for copies to the
/// GPU: at the speed of the link, if the file is in the system's cache. All is checked before a byte moves, and if the load fails, all memory is
/// given back. Every array is complete when the call returns. Ctrl-C stops the load.
#[pyfunction]
#[pyo3(signature = (path, names=None, device=Number(0), kind=Words::from("unified")), text_signature = "(path, names=None, device=0, kind=\"unified\")")]
pub(crate) fn load_file<'py>(
    path: &Bound<'py, PyAny>,
    names: Option<&Bound<'py, PyAny>>,
    device: Number<usize>,
    kind: Words,
) -> PyResult<Bound<'py, PyDict>> {
    let py = path.py();
    let path = self::path(path)?;
    let names = names.map(self::names).transpose()?;
    let (kind, word) = self::kind(&kind.0)?;
    let backend = backend(py, device.0)?;
    let weights = py.detach(|| Weights::open([&path])).map_err(refused)?;
    check(&weights, names.as_deref())?;
    // What Python raised, for example Ctrl-C.
    let raised = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&raised);
    let mut options = LoadOptions::default().progress(move |_, _| {
        match Python::try_attach(|py| py.check_signals()) {
            Some(Err(error)) => {
                *noted.lock() = Some(error);
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    });
    if let Some(names) = names {
        options = options.only(move |name| names.iter().any(|wanted| wanted == name));
    }
    let loaded = py.detach(|| weights.load(&backend, kind, &options));
    let loaded = match (loaded, raised.lock().take()) {
        (Err(_), Some(error)) => return Err(error),
        (loaded, _) => loaded.map_err(refused)?,
    };
    let arrays = outside::dict(py, [])?;
    for (name, tensor) in loaded {
        let array = array(tensor, &name, word, &backend);
        arrays.set_item(outside::string(py, &name)?, Bound::new(py, array)?)?;
    }
    Ok(arrays)
}

fn array(
    tensor: Tensor,
    name: &str,
    kind: &'static str,
    backend: &um_backend::CudaBackend,
) -> Array {
    Array {
        shape: tensor.shape().to_vec(),
        buffer: DlpackBuffer::new(tensor.into_buffer()),
        kind,
        name: Mutex::new(Some(name.to_owned())),
        read_only: false,
        imported: false,
        backend: backend.clone(),
    }
}

/// The path that a string, bytes or an object with `__fspath__` means.
fn path(value: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let encode = outside::import(value.py(), c"os")?.attribute(c"fsencode")?;
    let bytes = encode.run([value])?;
    let bytes = bytes.cast::<PyBytes>()?.as_bytes().to_vec();
    Ok(OsString::from_vec(bytes).into())
}

/// The names in a sequence.
fn names(names: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    if names.is_instance_of::<PyString>() {
        return Err(argument(
            "names is a sequence of names, and not one name: pass a list",
        ));
    }
    let name = |index| Ok(names.item(index)?.extract::<Words>()?.0);
    (0..names.length()?).map(name).collect()
}

/// Refuses names that the file does not have, and types that arrays do not have.
fn check(weights: &Weights, names: Option<&[String]>) -> PyResult<()> {
    for name in names.unwrap_or_default() {
        if weights.tensor(name).is_none() {
            let known: Vec<_> = weights
                .tensors()
                .iter()
                .take(8)
                .map(TensorInfo::name)
                .collect();
            return Err(argument(format!(
                "the file has no tensor {name:?}: it has {} tensors, the first are {known:?}",
                weights.tensors().len()
            )));
        }
    }
    let is_wanted =
        |name: &str| names.is_none_or(|names| names.iter().any(|wanted| wanted == name));
    let opaque = |tensor: &&TensorInfo| matches!(tensor.dtype(), DType::Opaque(_));
    let mut wanted = weights
        .tensors()
        .iter()
        .filter(|tensor| is_wanted(tensor.name()));
    match wanted.find(opaque) {
        None => Ok(()),
        Some(tensor) => Err(argument(format!(
            "the tensor {:?} has the type {}, which arrays do not have: leave it out by `names`",
            tensor.name(),
            tensor.dtype_name()
        ))),
    }
}

/// An error of um-weights as an exception: files as `FileError`, what is wrong in a file as `ArgumentError`.
fn refused(refused: um_weights::Error) -> PyErr {
    use um_weights::Error;
    match &refused {
        Error::Cuda { tensor, source } => of_cuda(source, &format!("tensor {tensor:?}: ")),
        Error::File { .. }
        | Error::MissingShard { .. }
        | Error::Read { .. }
        | Error::Shrunk { .. } => error(Kind::File, refused.to_string()),
        _ => argument(refused.to_string()),
    }
}
