//! Weights in a file like that of safetensors: the length of a header, the header as JSON, and the elements, at any byte.

use super::layout::refused;
use super::tensor::{Place, Tensor};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use um_backend::{CudaError, DType, Result};

/// The most bytes of a header.
const LONGEST: u64 = 100 << 20;

#[derive(Serialize, Deserialize)]
struct Entry {
    name: String,
    dtype: String,
    shape: Vec<usize>,
}

/// Writes tensors to a file. No copy of all elements is made.
///
/// # Errors
/// The writer failed, or errors of CUDA.
pub fn save(tensors: &[(String, Tensor)], file: &mut impl Write) -> Result<()> {
    let entry = |(name, tensor): &(String, Tensor)| Entry {
        name: name.clone(),
        dtype: tensor.dtype().to_string(),
        shape: tensor.shape().to_vec(),
    };
    let header =
        serde_json::to_vec(&tensors.iter().map(entry).collect::<Vec<_>>()).map_err(not_json)?;
    file.write_all(&(header.len() as u64).to_le_bytes())
        .map_err(in_header)?;
    file.write_all(&header).map_err(in_header)?;
    for (_, tensor) in tensors {
        let tensor = tensor.contiguous()?;
        let bytes = 0..tensor.storage.size_bytes();
        tensor.storage.read()?.bytes().write_to(file, bytes)?;
    }
    Ok(())
}

/// Reads tensors from a file, straight into their memory.
///
/// # Errors
/// The file is damaged, the reader failed, or there is no memory.
pub fn load(place: &Place, file: &mut impl Read) -> Result<Vec<(String, Tensor)>> {
    let mut bytes = [0; 8];
    file.read_exact(&mut bytes).map_err(in_header)?;
    let mut header = Vec::new();
    let length = u64::from_le_bytes(bytes);
    file.take(length.min(LONGEST))
        .read_to_end(&mut header)
        .map_err(in_header)?;
    let entries: Vec<Entry> = serde_json::from_slice(&header).map_err(not_json)?;
    let tensor = |entry: Entry| {
        let tensor = Tensor::zeros(place, entry.dtype.parse::<DType>()?, &entry.shape)?;
        let bytes = 0..tensor.storage.size_bytes();
        tensor.storage.write()?.bytes_mut().read_from(file, bytes)?;
        Ok((entry.name, tensor))
    };
    entries.into_iter().map(tensor).collect()
}

fn not_json(error: serde_json::Error) -> CudaError {
    refused(
        "the header of a file of tensors",
        "this JSON",
        error.to_string(),
    )
}

fn in_header(source: std::io::Error) -> CudaError {
    refused(
        "the header of a file of tensors",
        "these bytes",
        source.to_string(),
    )
}
