//! The functions of the driver that look its functions up: by name, and the undocumented tables.

use super::driver_symbol::latest_symbol;
use super::guard::entry_points;
use super::pointer::{Out, Text};
use crate::engine::Code;

entry_points! { Inquiry;
    // From CUDA 12.0 on the plain name in source code means this function.
    fn cuGetProcAddress_v2(core, name: Text, function: Out<usize>, version: i32, flags: u64, status: Out<u32>) {
        const NOT_FOUND: u32 = 1;
        let found = bodies::cuGetProcAddress(core, name, function, version, flags);
        // The address for the status is optional.
        let _ = status.put(if found.is_ok() { 0 } else { NOT_FOUND });
        found
    }

    fn cuGetProcAddress(core, name: Text, function: Out<usize>, _version: i32, _flags: u64) {
        let found = name.get()?.to_str().map_or(std::ptr::null(), |name| latest_symbol(core.slot(), &core.machine, name));
        function.put(found as usize)?;
        if found.is_null() { Err(Code::SYMBOL_NOT_FOUND) } else { Ok(()) }
    }

    // NVRTC calls it without a check that it exists. There are no tables, as for an unknown id on a GPU.
    fn cuGetExportTable(_core, table: Out<usize>, _id: usize) {
        if !table.is_null() {
            table.put(0)?;
        }
        Err(Code::INVALID_VALUE)
    }
}
