//! Models in the user's cache folder, one file for each machine.

use super::clock::Clock;
use super::error::{CalibrateError, Result};
use super::machine;
use super::measure::measure;
use cuda_um::Device;
use cuda_um::cost::CostModel;
use etcetera::BaseStrategy;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A folder with measured models.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The folder `cuda-um/cost` in the user's cache folder.
    ///
    /// # Errors
    ///
    /// [`CalibrateError::NoFolder`] if the user has no home folder.
    pub fn of_user() -> Result<Self> {
        let strategy =
            etcetera::choose_base_strategy().map_err(|error| CalibrateError::NoFolder {
                reason: error.to_string(),
            })?;
        Ok(Self::at(strategy.cache_dir().join("cuda-um/cost")))
    }

    /// This folder. It is created when a model is written.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The file for this device and machine, whether or not it exists.
    ///
    /// # Errors
    ///
    /// [`CalibrateError::Device`]
    pub fn path(&self, device: &Device) -> Result<PathBuf> {
        Ok(self.folder.join(machine::file_name(device)?))
    }

    /// The model for this device and machine. `None` if there is no file; also, with a warning, if it is not a cost model, or one of another
    /// machine or method.
    ///
    /// # Errors
    ///
    /// [`CalibrateError::Device`]
    pub fn load(&self, device: &Device) -> Result<Option<CostModel>> {
        let path = self.path(device)?;
        if !path.exists() {
            return Ok(None);
        }
        let reason = match CostModel::from_file(&path) {
            Ok(model) if model.source.starts_with(&machine::source(device)?) => {
                return Ok(Some(model));
            }
            Ok(model) => format!("its source is {:?}", model.source),
            Err(error) => error.to_string(),
        };
        tracing::warn!("{} is not used: {reason}", path.display());
        Ok(None)
    }

    /// The model for this device and machine; it is measured and kept if the folder does not have it. If it cannot be kept, a warning gives
    /// the reason. Of several threads and processes, one measures, and the others wait for it.
    ///
    /// # Errors
    ///
    /// [`CalibrateError::Device`] and [`CalibrateError::Step`]
    pub fn load_or_measure(&self, device: &Device, clock: &Clock) -> Result<CostModel> {
        if let Some(model) = self.load(device)? {
            return Ok(model);
        }
        let _lock = self.lock();
        // Another thread may have measured it before this one had the lock.
        if let Some(model) = self.load(device)? {
            return Ok(model);
        }
        let model = measure(device, clock)?;
        if let Err(error) = self.store(device, &model) {
            tracing::warn!("the cost model is not kept: {error}");
        }
        Ok(model)
    }

    /// Measures the model for this device and machine, and keeps it. Replaces an older file.
    ///
    /// # Errors
    ///
    /// [`CalibrateError::Device`], [`CalibrateError::Step`] and [`CalibrateError::File`]
    pub fn measure(&self, device: &Device, clock: &Clock) -> Result<CostModel> {
        let _lock = self.lock();
        let model = measure(device, clock)?;
        self.store(device, &model)?;
        Ok(model)
    }

    /// Waits for other threads and processes that measure. The lock is released when the file is closed. Without a lock (a folder that
    /// cannot be written, a file system without locks), measurements may disturb each other; writing stays safe.
    fn lock(&self) -> Option<File> {
        let locked = std::fs::create_dir_all(&self.folder)
            .and_then(|()| File::create(self.folder.join("lock")))
            .and_then(|file| file.lock().map(|()| file));
        locked.ok()
    }

    /// Writes the file under another name, and then renames it.
    fn store(&self, device: &Device, model: &CostModel) -> Result<()> {
        let path = self.path(device)?;
        write(&self.folder, &path, &model.to_json())
            .map_err(|source| CalibrateError::File { path, source })
    }
}

fn write(folder: &Path, path: &Path, text: &str) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}
