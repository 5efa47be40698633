//! What the PTX of a module declares, for the texts of errors.

use crate::context::device::Device;
use cuda_um_sys::RuntimeVersion;

/// The names that the error of a missing kernel lists.
const NAMES: usize = 16;

/// The first word after a directive.
fn after<'t>(ptx: &'t str, directive: &str) -> Option<&'t str> {
    let mut words = ptx.split_whitespace();
    words.find(|word| *word == directive)?;
    words.next()
}

/// The reason for which the driver refuses PTX for the device, as far as the declarations tell it.
pub(super) fn refusal(ptx: &str, device: &Device) -> Option<String> {
    let version = after(ptx, ".version").and_then(|version| {
        let (major, minor) = version.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    let Some((isa_major, isa_minor)) = version else {
        return Some("not PTX: no `.version` with a number".to_owned());
    };
    if let Ok(driver) = device.runtime().driver_version()
        && let Some((major, minor)) = newest_isa(driver)
        && (isa_major, isa_minor) > (major, minor)
    {
        return Some(format!(
            "the PTX has version {isa_major}.{isa_minor}, and the driver (CUDA {driver}) compiles versions up to \
             {major}.{minor}: update the driver, or compile for an older version"
        ));
    }
    let target = after(ptx, ".target")?.trim_end_matches(',');
    let digits = target.strip_prefix("sm_")?.trim_end_matches(['a', 'f']);
    let (major, minor) = device.capabilities().compute_capability;
    (digits.parse::<u32>().ok()? > major * 10 + minor).then(|| {
        format!(
            "the PTX has the target sm_{digits}, and device {} ({}) is sm_{major}{minor}: compile for sm_{major}{minor} or older",
            device.ordinal(),
            device.name()
        )
    })
}

/// The newest version of PTX that a driver for this version of CUDA compiles; `None` before CUDA 11.8, and for versions of CUDA that are
/// newer than this crate.
fn newest_isa(driver: RuntimeVersion) -> Option<(u32, u32)> {
    Some(match (driver.major, driver.minor) {
        (11, 8) => (7, 8),
        (12, minor @ 0..=5) => (8, minor),
        (12, 6) => (8, 5),
        (12, minor @ 7..=9) => (8, minor - 1),
        // Each version since 13.0 has raised it by one.
        (13, minor @ 0..=5) => (9, minor),
        _ => return None,
    })
}

/// The kernels of PTX, for the error of a name that is not among them.
pub(super) fn kernels(ptx: &str) -> String {
    let names = ptx.split(".entry").skip(1).filter_map(|rest| {
        let is_of_name = |c: char| c.is_alphanumeric() || "_$%".contains(c);
        rest.trim_start().split(|c| !is_of_name(c)).next()
    });
    let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
    match (names.len(), names.len().saturating_sub(NAMES)) {
        (0, _) => "the module has no kernels".to_owned(),
        (_, 0) => format!("the module has {}", names.join(", ")),
        (_, more) => format!(
            "the module has {} and {more} more",
            names[..NAMES].join(", ")
        ),
    }
}
