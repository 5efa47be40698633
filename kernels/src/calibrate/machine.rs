//! The identity of a machine: a model of one is not used on another.

use super::error::{CalibrateError, Result};
use cuda_um::Device;

/// Must be increased when the way of measuring changes.
const METHOD: u32 = 2;

/// The beginning of the source of every model that this method measured with this device.
pub(crate) fn source(device: &Device) -> Result<String> {
    Ok(format!(
        "um-kernels calibration {METHOD} on {}: ",
        identity(device)?
    ))
}

/// The name of the file of the cache: the identity in letters that every file system accepts.
pub(crate) fn file_name(device: &Device) -> Result<String> {
    let plain = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' => letter,
        _ => '_',
    };
    let name: String = identity(device)?.chars().map(plain).collect();
    Ok(format!("{name}.json"))
}

fn identity(device: &Device) -> Result<String> {
    let driver = device.runtime().driver_version();
    let driver = driver.map_err(CalibrateError::Device)?;
    let gpu = device.name();
    Ok(format!("{gpu}, CUDA driver {driver}, {}", cpu()))
}

/// The model of the CPU, or its architecture if the system does not report the model.
fn cpu() -> String {
    let variable = std::env::var("PROCESSOR_IDENTIFIER");
    let described = std::fs::read_to_string("/proc/cpuinfo").or(variable);
    let described = described.unwrap_or_default();
    let mut lines = described.lines().filter_map(|line| line.split_once(':'));
    let model = lines.find(|(key, _)| key.trim() == "model name");
    let model = model.map_or(described.lines().next(), |(_, model)| Some(model));
    let model = model.map(str::trim).filter(|model| !model.is_empty());
    model.unwrap_or(std::env::consts::ARCH).to_owned()
}
