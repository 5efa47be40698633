//! Tensors of files as arrays.

use std::collections::HashSet;
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use cuda_um_sys::locks::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use um_backend::DType;
use um_weights::{LoadOptions, Save, Tensor, TensorInfo, Weights, printable};

use crate::array::{Array, count, kind};
use crate::backend::backend;
use crate::create::caller;
use crate::errors::{Kind, argument, error, of_cuda, of_system};
use crate::number::Number;
use crate::outside::{self, Outside, Words};
use crate::owner::Kept;
use crate::profile;

/// Returns the tensors of a safetensors or GGUF file, or of an index of safetensors files, as a dict of new arrays by name.
///
/// `names` has the tensors to load; without it, all are. Several threads read the file straight into the memory for copies to the
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
    let site = caller(py)?;
    let (kind, word) = self::kind(&kind.0)?;
    let backend = backend(py, device.0)?;
    let weights = py.detach(|| Weights::open([&path])).map_err(refused)?;
    py.detach(|| check(&weights, names.as_ref()))
        .map_err(argument)?;
    // What Python raised, for example Ctrl-C.
    let raised = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&raised);
    let mut options = LoadOptions::default().managed(true).progress(move |_, _| {
        match Python::try_attach(|py| py.check_signals()) {
            Some(Err(error)) => {
                *noted.lock() = Some(error);
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    });
    if let Some(names) = names {
        options = options.only(move |name| names.contains(name));
    }
    let loaded = py.detach(|| weights.load(&backend, kind, &options));
    // Also if the load was complete then.
    let raised = raised.lock().take();
    if let Some(error) = raised {
        py.detach(|| drop(loaded));
        return Err(error);
    }
    let loaded = loaded.map_err(refused)?;
    let arrays = outside::dict(py, [])?;
    for (name, tensor) in loaded {
        if let Some(site) = &site {
            profile::note(&printable(&name), site);
        }
        let array = array(tensor, &name, word, &backend);
        arrays.set_item(outside::string(py, &name)?, Bound::new(py, array)?)?;
    }
    Ok(arrays)
}

/// Writes arrays to a safetensors file, by name.
///
/// `arrays` is a dict of arrays of this package, of any kind of memory; `metadata` is a dict of strings. The file is written beside its place, to the end and
/// to the disk, and then gets its name: after a failure the old file is as it was. Waits for work that writes the arrays.
#[pyfunction]
#[pyo3(signature = (arrays, path, metadata=None))]
pub(crate) fn save_file(
    arrays: &Bound<'_, PyDict>,
    path: &Bound<'_, PyAny>,
    metadata: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let py = arrays.py();
    let path = self::path(path)?;
    let words = |value: &Bound<'_, PyAny>| Ok::<_, PyErr>(value.extract::<Words>()?.0);
    let mut named = Vec::new();
    for (name, array) in arrays.iter() {
        let name = words(&name)?;
        let array = array.cast_into::<Array>().map_err(|other| {
            let class = other.into_inner().get_type();
            argument(format!(
                "{name:?} is {class}, and not an array of cuda_um: pass `cuda_um.array(…)` of it"
            ))
        })?;
        named.push((name, array.unbind()));
    }
    let metadata = metadata.into_iter().flat_map(|metadata| metadata.iter());
    let metadata = metadata.map(|(key, value)| Ok((words(&key)?, words(&value)?)));
    let metadata: Vec<(String, String)> = metadata.collect::<PyResult<_>>()?;
    py.detach(|| {
        let read = |(name, array): &(String, Py<Array>)| {
            let array = array.get();
            let guard = array.settle().and_then(|()| array.storage().read());
            guard.map_err(|source| um_weights::Error::Cuda {
                tensor: name.clone(),
                source,
            })
        };
        let guards = named.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let mut save = Save::new();
        for (key, value) in &metadata {
            save.metadata(key, value);
        }
        for ((name, array), guard) in named.iter().zip(&guards) {
            save.buffer(name, &array.get().shape, guard)?;
        }
        save.write(&path)
    })
    .map_err(refused)
}

fn array(
    tensor: Tensor,
    name: &str,
    kind: &'static str,
    backend: &um_backend::CudaBackend,
) -> Array {
    Array {
        shape: tensor.shape().to_vec(),
        buffer: Kept::new(tensor.into_buffer()),
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

/// The names that a program iterates over.
fn names(names: &Bound<'_, PyAny>) -> PyResult<HashSet<String>> {
    if names.is_instance_of::<PyString>() {
        return Err(argument("names are several, and not one name: pass a list"));
    }
    let list = outside::import(names.py(), c"builtins")?.attribute(c"list")?;
    let names = list.run([names])?;
    let name = |index| Ok(names.item(index)?.extract::<Words>()?.0);
    (0..names.length()?).map(name).collect()
}

/// Refuses names that the file does not have, and types and shapes that arrays do not have.
fn check(weights: &Weights, names: Option<&HashSet<String>>) -> Result<(), String> {
    for name in names.into_iter().flatten() {
        if weights.tensor(name).is_none() {
            let known: Vec<_> = weights
                .tensors()
                .iter()
                .take(8)
                .map(TensorInfo::name)
                .collect();
            return Err(format!(
                "the file has no tensor {name:?}: it has {} tensors, the first are {known:?}",
                weights.tensors().len()
            ));
        }
    }
    for tensor in weights.tensors() {
        let (name, dtype) = (tensor.name(), tensor.dtype());
        if names.is_some_and(|names| !names.contains(name)) {
            continue;
        }
        if matches!(dtype, DType::Opaque(_)) {
            return Err(format!(
                "the tensor {name:?} has the type {}, which arrays do not have: leave it out by `names`",
                tensor.dtype_name()
            ));
        }
        count(tensor.shape(), dtype.size_bytes())
            .map_err(|reason| format!("the tensor {name:?}: {reason}"))?;
    }
    Ok(())
}

/// An error of um-weights as an exception: files as `FileError`, what is wrong in a file as `ArgumentError`.
fn refused(refused: um_weights::Error) -> PyErr {
    use um_weights::Error;
    if let Some((source, file)) = refused.of_system() {
        return of_system(source, file, &refused.to_string());
    }
    match &refused {
        Error::Cuda { tensor, source } => of_cuda(source, &format!("tensor {tensor:?}: ")),
        Error::MissingShard { .. } | Error::Shrunk { .. } => error(Kind::File, refused.to_string()),
        _ => argument(refused.to_string()),
    }
}
