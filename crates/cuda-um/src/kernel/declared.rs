//! What the PTX of a module declares, for checks and for the texts of errors.

use crate::context::device::Device;
use crate::error::Result;
use cuda_um_sys::ptx::{self, Ptx, PtxError};

/// The names that the error of a missing kernel lists.
const NAMES: usize = 16;

/// What the PTX of a module declares; nothing for a binary image, and for text that the reader does not understand.
pub(crate) struct Declared(Result<Ptx, Option<PtxError>>);

impl Declared {
    pub(crate) const NOTHING: Self = Self(Err(None));

    pub(crate) fn read(ptx: &str) -> Self {
        Self(ptx::parse(ptx).map_err(Some))
    }

    pub(crate) fn parameters(&self, kernel: &str) -> Option<Vec<u32>> {
        let entries = &self.0.as_ref().ok()?.entries;
        let entry = entries.iter().find(|entry| entry.name == kernel)?;
        let sizes = entry.parameters.iter();
        sizes.map(|bytes| u32::try_from(*bytes).ok()).collect()
    }

    /// The reason for which the driver refuses the module for the device, as far as the declarations tell it. The compiler's log says
    /// more about text than the reader here.
    pub(crate) fn refusal(&self, device: &Device, has_log: bool) -> Option<String> {
        let ptx = match &self.0 {
            Ok(ptx) => ptx,
            Err(error) => return error.as_ref().filter(|_| !has_log).map(PtxError::to_string),
        };
        let (isa_major, isa_minor) = ptx.version;
        if let Ok(driver) = device.runtime().driver_version()
            && let Some((major, minor)) = ptx::newest_isa(driver)
            && ptx.version > (major, minor)
        {
            return Some(format!(
                "the PTX has version {isa_major}.{isa_minor}, and the driver (CUDA {driver}) compiles versions up to \
                 {major}.{minor}: update the driver, or compile for an older version"
            ));
        }
        let (major, minor) = device.capabilities().compute_capability;
        (ptx.target > major * 10 + minor).then(|| {
            format!(
                "the PTX has the target sm_{}, and device {} ({}) is sm_{major}{minor}: compile for sm_{major}{minor} or older",
                ptx.target,
                device.ordinal(),
                device.name()
            )
        })
    }

    /// The kernels of the module, for the error of a name that is not among them.
    pub(crate) fn kernels(&self) -> Option<String> {
        let entries = &self.0.as_ref().ok()?.entries;
        let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
        Some(match (names.len(), names.len().saturating_sub(NAMES)) {
            (0, _) => "the module has no kernels".to_owned(),
            (_, 0) => format!("the module has {}", names.join(", ")),
            (_, more) => format!(
                "the module has {} and {more} more",
                names[..NAMES].join(", ")
            ),
        })
    }
}
