//! The kernels.

use cuda_um_sys::{RuntimeVersion, Table};
use std::ffi::CStr;

/// The kernels, as text that ends with NUL.
pub(crate) const PTX: &CStr = with_nul(concat!(include_str!("kernels.ptx"), "\0"));
/// The kernel that sets conditions.
const CONDITIONS: &CStr = with_nul(concat!(include_str!("conditions.ptx"), "\0"));

const ALWAYS: &[&CStr] = &[
    c"conf_add",
    c"conf_copy",
    c"conf_wait",
    c"conf_limited",
    c"conf_trap",
];

/// The images that the version of the runtime has, and their kernels.
pub(crate) fn images(table: &Table) -> Vec<(&'static CStr, &'static [&'static CStr])> {
    let mut images = vec![(PTX, ALWAYS)];
    if table.version() >= RuntimeVersion::new(12, 3) {
        images.push((CONDITIONS, &[c"conf_set_condition"]));
    }
    images
}

const fn with_nul(text: &str) -> &CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("the PTX holds a NUL"),
    }
}
